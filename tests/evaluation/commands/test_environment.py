"""What a source and its tests require, and the environment made of it."""

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.commands.environment import environment, requirements
from scripts.judge.sandbox.packages import Packages
from tests.judge.repositories import shapes_repository

PYPROJECT = """
[project]
name = "My_Shapes"
dependencies = ["attrs>=20"]
[project.optional-dependencies]
test = ["my-shapes[other]", "freezegun"]
docs = ["sphinx"]
[dependency-groups]
tests = ["pytest-mock", {include-group = "lint"}]
lint = ["ruff"]
"""
METADATA = """Metadata-Version: 2.1
Name: my-shapes
Requires-Dist: six
Requires-Dist: hypothesis; python_version > "3.8" and extra == "testing"
Requires-Dist: sphinx; extra == "docs"
"""


def test_extras_groups_and_files_of_tests_count_and_the_source_itself_does_not(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "PKG-INFO").write_text(METADATA)
    (tmp_path / "requirements").mkdir()
    lines = "# made\n-r other.txt\n-e .\npretend==1.0 # why\nfar @ https://example.org/far.whl\n"
    (tmp_path / "requirements/tests.txt").write_text(lines)
    expected = ["attrs>=20", "freezegun", 'hypothesis; python_version > "3.8"', "pretend==1.0", "pytest-mock", "six"]
    assert requirements(tmp_path) == expected


def test_an_environment_of_this_python_is_made_once(tmp_path):
    archive = shapes_repository.archive(tmp_path)
    assert environment(archive, tmp_path / "made") == []
    assert Packages.from_environment(str(tmp_path / "made")).environment.is_dir()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".made")]
    with pytest.raises(UserError, match=r"made: already exists; remove it first$"):
        environment(archive, tmp_path / "made")


def test_requirements_that_cannot_be_installed_are_one_line_errors_and_leave_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")
    files = {"pyproject.toml": '[project]\nname = "a"\ndependencies = ["no-package-of-this-name-9"]\n'}
    archive = shapes_repository.archive(tmp_path, files)
    with pytest.raises(UserError, match=r"^uv pip install: .*no-package-of-this-name-9") as error:
        environment(archive, tmp_path / "made")
    assert "\n" not in str(error.value) and not (tmp_path / "made").exists()
