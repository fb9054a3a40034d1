"""Kept fingerprints are those that would be computed, and none is kept once any file of scripts/ is another."""

import shutil

import pytest

from scripts.experiment.reruns import fingerprint, kept_fingerprints
from tests.experiment.proof import ROOT, rules

RULES = ["scripts.report.verdict", "scripts.evaluation.problems"]


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A copy of scripts/, and a function: the kept fingerprints of RULES, and which of them were computed for it."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(kept_fingerprints, "ROOT", tmp_path)
    computed = []

    def compute(module, without):
        computed.append(module)
        return f"{len(computed)}"

    monkeypatch.setattr(kept_fingerprints, "computed", compute)

    def ask() -> tuple[list[str], list[str]]:
        kept_fingerprints.tree_hash.cache_clear()
        computed.clear()
        return [kept_fingerprints.fingerprint(module, file=tmp_path / "kept.json") for module in RULES], list(computed)

    return tmp_path, ask


def test_kept_fingerprints_are_used_until_a_file_is_changed_added_or_removed(kept):
    root, ask = kept
    assert ask() == (["1", "2"], RULES)
    assert ask() == (["1", "2"], [])
    path = root / "scripts/experiment/checks.py"
    path.write_text(f"{path.read_text()}\n# more\n")
    assert ask() == (["1", "2"], RULES)
    for change in ((root / "scripts/new.txt").touch, (root / "scripts/new.txt").unlink):
        change()
        assert ask()[1] == RULES and ask()[1] == []
    (root / "kept.json").write_text("{")  # as a full disk may leave it
    assert ask()[1] == RULES


def test_kept_fingerprints_equal_the_computed_ones(tmp_path):
    for _ in range(2):
        assert [kept_fingerprints.fingerprint(rule, file=tmp_path / "kept.json") for rule in rules()[:5]] == [
            fingerprint.fingerprint(rule) for rule in rules()[:5]
        ]


def test_a_cache_is_used_only_as_it_was_written(kept):
    root, ask = kept
    ask()
    path = root / "kept.json"
    path.write_text(path.read_text().replace('"1"', '"3"'))
    assert ask() == (["1", "2"], RULES)
    for content in ("null", "[]", '{"content": 1, "sha256": 2}'):
        path.write_text(content)
        assert ask()[1] == RULES
    path.unlink()
    path.mkdir()  # where nothing can be kept nothing is
    assert ask()[1] == RULES and ask()[1] == RULES
