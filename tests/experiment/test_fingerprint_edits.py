"""The edits of benchmarks/bench_reruns.py: each changes the fingerprints of the steps whose code it concerns."""

import pytest

from benchmarks.reruns.edits import EDITS
from benchmarks.reruns.project import STEPS, ours
from scripts.experiment import fingerprint

# settings, inputs and records: what Snakemake itself compares
NOT_CODE = {"a touched input", "every file touched", "another checkout", "a renamed input file"}
# needless reruns: names of modules count
NEEDLESS = {"a renamed helper module": {"filter", "pack"}}


def forget() -> None:
    """Empty the caches, which hold the statements of another tree."""
    for cached in (fingerprint.read_parts, fingerprint.reach, fingerprint.fingerprint, fingerprint.files_by_name):
        cached.cache_clear()
    fingerprint.uses_of.cache_clear(), fingerprint.digest.cache_clear()


def fingerprints(root, monkeypatch) -> dict[str, str]:
    monkeypatch.setattr(fingerprint, "ROOT", root)
    forget()
    return {step: fingerprint.fingerprint(f"scripts.steps.{step}") for step in STEPS}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_changes_the_fingerprints_of_the_steps_it_concerns(tmp_path, monkeypatch, name):
    ours(tmp_path)
    before = fingerprints(tmp_path, monkeypatch)
    edit = EDITS[name]
    after = fingerprints(edit.apply(tmp_path) or tmp_path, monkeypatch)
    forget()
    is_code = not (name in NOT_CODE or "setting" in name or "changed input" in name)
    changed = {step for step in STEPS if before[step] != after[step]}
    assert changed == (edit.concerns if is_code else set()) | NEEDLESS.get(name, set())
