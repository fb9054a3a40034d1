"""The edits of benchmarks/bench_reruns.py: each changes the fingerprints of the steps whose code it concerns."""

from benchmarks.reruns.project import STEPS
from scripts.experiment.reruns import fingerprint


def forget() -> None:
    """Empty the caches, which hold the statements of another tree."""
    for cached in (fingerprint.read_parts, fingerprint.reach, fingerprint.fingerprint, fingerprint.files_by_name):
        cached.cache_clear()
    fingerprint.uses_of.cache_clear(), fingerprint.digest.cache_clear()


def fingerprints(root, monkeypatch) -> dict[str, str]:
    monkeypatch.setattr(fingerprint, "ROOT", root)
    forget()
    return {step: fingerprint.fingerprint(f"scripts.steps.{step}") for step in STEPS}
