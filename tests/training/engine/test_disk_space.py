"""A stage on a disk that is too small or may only be read: one line, before its first step."""

import re

import pytest

from tests import forked
from tests.small_disk import small_disk  # noqa: F401
from tests.training.conftest import MACHINE
from tests.training.test_train import command, run

pytestmark = pytest.mark.fault("the disk", "training")


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
