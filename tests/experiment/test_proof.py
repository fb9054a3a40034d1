"""Fingerprints proven by changing functions: the reruns are those that tests/experiment/proof.py computes.

That they include each rule whose jobs execute the function: tests/workflow/test_executed.py.
"""

import shutil
from functools import cache

import pytest

from scripts.experiment.reruns import fingerprint
from tests.experiment import proof


class ModuleParts:
    """Stands for `read_parts`, and forgets single modules."""

    def __init__(self, read):
        self.read, self.known = read, {}

    def __call__(self, module: str):
        if module not in self.known:
            self.known[module] = self.read(module)
        return self.known[module]


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A copy of scripts/ that fingerprints are taken of, and a function that forgets what was read of a module."""
    shutil.copytree(proof.ROOT / "scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(fingerprint, "ROOT", tmp_path)
    units = ModuleParts(fingerprint.read_parts.__wrapped__)
    monkeypatch.setattr(fingerprint, "read_parts", units)
    for name in ("reach", "fingerprint", "files_by_name"):
        monkeypatch.setattr(fingerprint, name, cache(getattr(fingerprint, name).__wrapped__))

    def forget(module: str) -> None:
        units.known.pop(module, None)
        fingerprint.reach.cache_clear(), fingerprint.fingerprint.cache_clear()

    return tmp_path, forget


def check(tree, sample: slice) -> None:
    """Change each function of a sample on disk; exactly the computed rules' fingerprints change."""
    root, forget = tree
    before = {rule: fingerprint.fingerprint(rule) for rule in proof.rules()}
    expected = proof.covered()
    functions = list(proof.all_functions(root).items())
    for function, node in functions[sample]:
        changed = proof.changed_rules(function, node, root, before, forget)
        assert changed == {rule for name, rule in expected if name == function}, function
    assert {rule: fingerprint.fingerprint(rule) for rule in before} == before


@pytest.mark.slow
def test_a_changed_function_changes_the_fingerprints_that_the_proof_says(tree):
    check(tree, slice(7, None, 240))


@pytest.mark.soak
@pytest.mark.timeout(2400)  # all functions: nine minutes on two free cores
def test_every_changed_function_changes_the_fingerprints_that_the_proof_says(tree):
    check(tree, slice(None))


@pytest.mark.slow
def test_every_file_that_is_no_python_is_in_the_fingerprint_of_a_rule():
    """The channels of compiled programs, the templates: a new one that no reached code names would rerun nothing."""
    covered = {path for rule in proof.rules() for path in fingerprint.reach(rule).files}
    files = [path for path in (fingerprint.ROOT / "scripts").rglob("*") if path.is_file()]
    files = [path for path in files if path.suffix not in (".py", ".md")]
    assert {path for path in files if "__pycache__" not in path.parts} <= covered
