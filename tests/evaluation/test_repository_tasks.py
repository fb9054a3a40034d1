"""Rule repository_tasks: which functions of a handmade repository are tasks, and why the others are not."""

import pytest

from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.common.manifest import write_manifest
from scripts.evaluation.repository_functions import task_selection
from scripts.evaluation.repository_tasks import repository_tasks
from scripts.evaluation.suites.repository_tests import RepositoryTasks
from tests.judge.repositories import shapes_repository

pytestmark = pytest.mark.slow
SETTINGS = RepositoryTasks(timeout=20)
LOSSES = {
    "too long": 1,  # lengthy; grow has as many lines as may be
    "coroutine": 1,
    "not covered": 1,
    "occurs elsewhere": 0,
    "in training": 0,
    "not tried": 0,
    "not separable": 1,  # printed: what the other process prints no test sees
    "still passes when masked": 0,
    "trivial body passes": 3,  # nothing, same, counted
    "flaky": 0,
}


def test_tasks_are_the_functions_that_their_tests_can_judge_and_the_counts_add_up(sandbox, tmp_path, monkeypatch):
    monkeypatch.setattr(task_selection, "LONGEST", 5)
    (tmp_path / "source").mkdir()
    archive = shapes_repository.archive(tmp_path / "source")
    manifest = repository_tasks({"made": archive}, tmp_path, [], SETTINGS, tmp_path / "out")
    counts = manifest["counts"]["made"]
    tasks = {task["function"]: task for task in read_jsonl(tmp_path / "out/tasks.jsonl.zst")}
    assert set(tasks) == {"Box.grow", "Box.area", "mapped"}
    assert {cause: counts[cause] for cause in LOSSES} == LOSSES
    assert counts["functions"] == len(tasks) + sum(LOSSES.values()) == 10
    assert (counts["tests_passed"], counts["tests_ran"]) == (9, 10)
    assert tasks["Box.grow"]["tests"] == [f"tests/test_shapes.py::test_grow[{by}]" for by in (1, 2)]
    assert all(task["before"] + task["answer"] + task["after"] == shapes_repository.MODULE for task in tasks.values())
    assert tasks["Box.grow"]["before"].endswith('in place."""\n        ')


def test_a_body_in_the_training_data_or_in_another_file_is_no_task(sandbox, tmp_path, monkeypatch):
    monkeypatch.setattr(task_selection, "LONGEST", 2)
    monkeypatch.setattr(task_selection, "TRIES", 1)
    body = "    size = self.width * self.height\n    return size\n"
    write_jsonl(tmp_path / "code/train.jsonl.zst", [{"id": "a", "text": f"def other(self):\n{body}"}])
    write_manifest(tmp_path / "code", ["train.jsonl.zst"], examples={"train": 1})
    files = {"src/shapes/__init__.py": shapes_repository.MODULE, "tests/test_shapes.py": shapes_repository.TESTS}
    files["src/shapes/copy.py"] = "def grow(self, by, note):\n    for value in values:\n        yield function(value)\n"
    (tmp_path / "source").mkdir()
    archive = shapes_repository.archive(tmp_path / "source", files)
    with pytest.raises(UserError, match=r"evaluation\.repository_tests: no source has a task") as error:
        repository_tasks({"made": archive}, tmp_path, ["code"], SETTINGS, tmp_path / "out")
    assert "1 occurs elsewhere, 1 in training" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_missing_or_damaged_archive_and_a_folder_that_is_no_environment_are_one_line_errors(sandbox, tmp_path):
    with pytest.raises(UserError, match=r"none\.tar\.zst: no such file; rule `fetch` makes it$"):
        repository_tasks({"made": tmp_path / "none.tar.zst"}, tmp_path, [], SETTINGS, tmp_path / "out")
    (tmp_path / "bad.tar.zst").write_bytes(b"not an archive")
    with pytest.raises(UserError, match=r"bad\.tar\.zst: damaged: .*; remove it and run again$"):
        repository_tasks({"made": tmp_path / "bad.tar.zst"}, tmp_path, [], SETTINGS, tmp_path / "out")
    settings = SETTINGS.model_copy(update={"environments": {"made": str(tmp_path)}})
    with pytest.raises(UserError, match=r"^evaluation\.repository_tests\.environments\.made: .*: no packages in lib/"):
        repository_tasks({"made": tmp_path / "bad.tar.zst"}, tmp_path, [], settings, tmp_path / "out")


@pytest.mark.parametrize(
    ("files", "cause"),
    [
        ({"shapes.py": shapes_repository.MODULE}, "no tests: no file test_*.py"),
        ({"tests/test_a.py": shapes_repository.TESTS}, "no functions: "),
        (
            {"shapes.py": shapes_repository.MODULE, "test_a.py": "import numpy_that_is_not_there\n"},
            "environment: test_a.py: ",
        ),
        (
            {"shapes.py": shapes_repository.MODULE, "test_a.py": "def test_a():\n    assert 0\n"},
            "tests fail: test_a.py::test_a",
        ),
        (
            {"pluggy/__init__.py": shapes_repository.MODULE, "test_a.py": "def test_a():\n    pass\n"},
            "the test runner itself uses",
        ),
    ],
)
def test_a_source_without_tasks_says_why(sandbox, tmp_path, files, cause):
    archive = shapes_repository.archive(tmp_path, files)
    with pytest.raises(UserError) as error:
        repository_tasks({"made": archive}, tmp_path, [], SETTINGS, tmp_path / "out")
    assert cause in str(error.value) and "\n" not in str(error.value)
