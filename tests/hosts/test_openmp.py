"""scripts/hosts/hardware.py: waiting threads sleep on a machine without GPUs, whichever program starts the work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.hosts.hardware import sleep_while_waiting

ROOT = Path(__file__).parents[2]
LOCAL = ["--machine", "config/machines/local.yaml"]
SAY = "import os; print(os.environ.get('GOMP_SPINCOUNT'))"
CLEAN = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}


@pytest.fixture
def spin_count(tmp_path):
    """A function that starts `program` with an environment and returns the spin count of what that starts."""
    (tmp_path / "say.py").write_text(SAY)
    words = {
        "scripts.hosts.gpus": [*LOCAL, "--count", "1", sys.executable, "-m", "say"],
        "scripts.training.launch": [*LOCAL, "--threads", "1", "say"],
    }

    def start(program: str, **environment: str) -> str:
        line = [sys.executable, "-m", program, *words[program]]
        path = {"PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            line, cwd=ROOT, env=CLEAN | path | environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    return start


@pytest.mark.parametrize("program", ["scripts.hosts.gpus", "scripts.training.launch"])
def test_threads_sleep_while_they_wait_unless_the_user_says_otherwise(spin_count, program):
    assert spin_count(program) == "0"
    assert spin_count(program, GOMP_SPINCOUNT="1000") == "1000"
    assert spin_count(program, OMP_WAIT_POLICY="ACTIVE") == "None"  # which a spin count would override


def test_nothing_is_set_on_a_machine_with_gpus(monkeypatch):
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    sleep_while_waiting(2)
    assert "GOMP_SPINCOUNT" not in os.environ
