"""A stage on a disk that is too small, or that fills up: one line, no half-written checkpoint, and it resumes."""

import re
import subprocess
import time

import pytest

from scripts.training.engine.checkpoint_folders import is_complete, step_of
from tests import forked
from tests.small_disk import small_disk  # noqa: F401
from tests.training.conftest import MACHINE
from tests.training.test_train import command, metrics, run

pytestmark = pytest.mark.fault("the disk", "training")

MANY = {"steps": 600, "save_steps": 50, "eval_steps": 600, "keep_checkpoints": 1}


def errors(text: str) -> list[str]:
    """The lines that are no progress."""
    return [line for line in text.splitlines() if not re.match(r"\d\d:\d\d:\d\d ", line)]


def test_a_stage_whose_checkpoints_cannot_fit_is_refused_before_its_first_step(origin, shards, small_disk):  # noqa: F811
    refused = run(origin, shards, small_disk.path, keep_checkpoints=3)
    assert refused.returncode == 1
    [line] = errors(refused.stderr)
    assert re.fullmatch(
        r"error: training.train.tiny: 3 checkpoints of [\d.]+ KiB and a model of [\d.]+ KiB need 1.\d MiB more in "
        rf"{small_disk.path}/work/\w+, [\d.]+ [KM]iB are free; make space there, or lower `keep_checkpoints`",
        line,
    ), line
    assert not list(small_disk.path.glob("work/*/checkpoint-*"))
    assert run(origin, shards, small_disk.path, keep_checkpoints=1, save_steps=12).returncode == 0


@pytest.mark.soak
def test_a_disk_that_fills_up_ends_a_stage_in_one_line_and_the_next_attempt_resumes(origin, shards, small_disk):  # noqa: F811
    small_disk.remount("size=16m")
    words = [forked.python(), *command(origin, shards, small_disk.path, **MANY)[1:]]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list(small_disk.path.glob("work/*/checkpoint-*/whole.json")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    used = int(subprocess.run(["du", "-sk", small_disk.path], capture_output=True, check=True).stdout.split()[0])
    small_disk.remount(f"size={used + 100}k")  # another program has taken the rest
    _, text = process.communicate(timeout=120)
    assert process.returncode == 1
    [line] = errors(text)
    assert re.fullmatch(
        rf"error: {small_disk.path}/work/\S+: No space left on device \(.* are free there now\)", line
    ), line
    left = list(small_disk.path.glob("work/*/checkpoint-*"))
    assert left and all(is_complete(folder) for folder in left)
    small_disk.remount("size=16m")
    again = run(origin, shards, small_disk.path, **MANY)
    assert again.returncode == 0, again.stderr
    assert f"resumes at step {max(map(step_of, left))}" in again.stderr
    steps = [entry["step"] for entry in metrics(small_disk.path / "out") if "loss" in entry]
    assert steps == list(range(1, MANY["steps"] + 1))


def test_a_read_only_results_folder_is_a_one_line_error(origin, shards, small_disk):  # noqa: F811
    words = command(origin, shards, small_disk.path)
    small_disk.remount("ro")
    done = forked.run(words)
    assert done.returncode == 1
    [line] = errors(done.stderr)
    assert line.startswith(f"error: {small_disk.path}/work") and "Read-only file system" in line


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_the_size_of_a_checkpoint_is_known_before_it_is_written(origin, shards, small_disk, optimizer):  # noqa: F811
    """The refusal names it; the run on a larger disk writes it."""
    small_disk.remount("size=256k")
    refused = run(origin, shards, small_disk.path, optimizer=optimizer)
    kib = float(re.search(r"checkpoints of ([\d.]+) KiB", refused.stderr).group(1))
    small_disk.remount("size=16m")
    done = run(origin, shards, small_disk.path, MACHINE, optimizer=optimizer)
    assert done.returncode == 0, done.stderr
    real = sum(path.stat().st_size for path in small_disk.path.glob("work/*/checkpoint-12/*"))
    assert 0 < real / 1024 - kib < 64  # random states, names, the Trainer's log; the same for a model of any size
