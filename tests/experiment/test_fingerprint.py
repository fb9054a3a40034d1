"""scripts/experiment/fingerprint.py: a fingerprint changes with what a rule runs, and with nothing else."""

import shutil
from pathlib import Path

import pytest

from scripts.experiment import fingerprint as subject


@pytest.fixture
def project(tmp_path, monkeypatch):
    """`area.rule` imports `common.helper`, which imports `common.deep`; `common.other` stands alone."""
    for name, text in {
        "area/rule.py": '"""Doc."""\nfrom scripts.common import helper\n\ndef f():\n    return helper.g()  # c\n',
        "common/helper.py": "def g():\n    from scripts.common.deep import h\n    return h()\n",
        "common/deep.py": "import json\nh = json.loads\n",
        "common/other.py": "x = 1\n",
        "area/__init__.py": "",
        "common/__init__.py": "",
        "__init__.py": "",
    }.items():
        path = tmp_path / "scripts" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(subject, "ROOT", tmp_path)

    def now() -> str:
        subject.parsed.cache_clear()
        subject.fingerprint.cache_clear()
        return subject.fingerprint("scripts.area.rule")

    yield tmp_path / "scripts", now
    subject.parsed.cache_clear()
    subject.fingerprint.cache_clear()


@pytest.mark.parametrize(
    ("file", "old", "new", "changes"),
    [
        ("area/rule.py", "# c", "# another comment", False),
        ("area/rule.py", '"""Doc."""', '"""Another\n\n    docstring."""', False),
        ("area/rule.py", "helper.g()", "(helper . g( ))", False),
        ("area/rule.py", "helper.g()", "helper.g() or 1", True),
        ("common/helper.py", "h()", "h('{}')", True),
        ("common/deep.py", "json.loads", "json.dumps", True),
        ("common/other.py", "x = 1", "x = 2", False),
    ],
)
def test_only_code_that_the_rule_runs_changes_its_fingerprint(project, file, old, new, changes):
    scripts, now = project
    before = now()
    text = (scripts / file).read_text()
    assert old in text
    (scripts / file).write_text(text.replace(old, new))
    assert (now() != before) is changes


def test_a_module_moved_elsewhere_in_the_file_system_keeps_its_fingerprint(project, tmp_path, monkeypatch):
    scripts, now = project
    before = now()
    shutil.copytree(scripts, tmp_path / "elsewhere" / "scripts")
    monkeypatch.setattr(subject, "ROOT", tmp_path / "elsewhere")
    assert now() == before


def test_every_rule_of_the_product_has_a_fingerprint():
    for path in Path("scripts").glob("*/*.py"):
        module = ".".join(path.with_suffix("").parts)
        assert len(subject.fingerprint(module)) == 16
