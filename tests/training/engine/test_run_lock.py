"""scripts/training/engine/run_lock.py: the newer of two runs on one work folder goes on, the older ends."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.training.engine.checkpoint_folders import no_half_written_checkpoint
from scripts.training.engine.run_lock import Ownership
from tests import forked
from tests.training.test_train import command

pytestmark = pytest.mark.fault("the work folder, by another run", "training")

ENDLESS = {"steps": 100_000, "save_steps": 20, "eval_steps": 100_000}


def test_the_newer_start_owns_the_folder_and_the_older_names_it(tmp_path, monkeypatch):
    older = Ownership(tmp_path)
    older.check()
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    newer = Ownership(tmp_path)
    newer.check()
    with pytest.raises(UserError, match=r"taken over by Slurm job 77, restart 1, process \d+ on \S+; this run"):
        older.check()
    older.release()
    newer.check()  # the older must not remove the newer's token
    newer.release()
    assert newer.is_lost() and not list(tmp_path.iterdir())


def test_whatever_fails_after_the_folder_was_lost_is_told_as_that_and_its_files_stay(tmp_path):
    older, checkpoint = Ownership(tmp_path), tmp_path / "checkpoint-4"
    checkpoint.mkdir()
    Ownership(tmp_path)
    with pytest.raises(UserError, match="taken over by process"), no_half_written_checkpoint(tmp_path, older):
        raise FileNotFoundError(checkpoint / "model.safetensors")
    assert checkpoint.is_dir()


def logged(work: Path) -> list[int]:
    lines = [line for path in work.glob("*/metrics.jsonl") for line in path.read_text().splitlines(keepends=True)]
    return [json.loads(line)["step"] for line in lines if line.endswith("\n")]


def wait_for(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)


def test_a_second_run_of_a_stage_takes_over_and_the_first_ends_at_once_in_one_line(origin, shards, tmp_path):
    words = [forked.python(), *command(origin, shards, tmp_path, **ENDLESS)[1:]]
    work = tmp_path / "work"
    first = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(logged(work)) > 50, 120)
    second = subprocess.Popen(words, stderr=subprocess.DEVNULL, env={**os.environ, "SLURM_JOB_ID": "77"})
    try:
        _, errors = first.communicate(timeout=120)
        assert first.returncode == 1
        assert "taken over by Slurm job 77, restart 0" in errors.splitlines()[-1]
        assert "Traceback" not in errors
        begun = len(logged(work))
        wait_for(lambda: len(logged(work)) > begun + 50, 120)
        assert second.poll() is None
    finally:
        second.send_signal(signal.SIGKILL)
        second.wait()
    steps = logged(work)
    assert steps == list(range(1, len(steps) + 1))  # none twice, none missing
