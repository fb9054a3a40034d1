"""A damaged checkpoint is set aside and the next older one is resumed: the weights are those of an undisturbed run."""

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from scripts.common.files import sha256_file
from scripts.training.engine.checkpoint_folders import mark_complete, read_marker
from tests import forked
from tests.training.conftest import often
from tests.training.test_train import command

pytestmark = pytest.mark.fault("a checkpoint or the records beside it", "training")

NEWEST = "checkpoint-12"


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def zeros(path: Path) -> None:
    """What a file system may leave of a file that was not flushed before a crash."""
    path.write_bytes(bytes(path.stat().st_size))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def wrong(path: Path) -> None:
    path.write_text('{"a": 1}')


ASIDE = "is not what was saved; set aside as damaged-checkpoint-12, the next older checkpoint is used"
MARKED = "whole.json is not what was written; it is not used"
# what is done to which file, at which step the stage goes on, and what its log says of it
DAMAGES = {
    "a bit of the weights": (flip, f"{NEWEST}/model.safetensors", 8, f"model.safetensors {ASIDE}"),
    "a bit of the optimizer": (flip, f"{NEWEST}/optimizer.pt", 8, f"optimizer.pt {ASIDE}"),
    "an optimizer of zeros": (zeros, f"{NEWEST}/optimizer.pt", 8, f"optimizer.pt {ASIDE}"),
    "an optimizer cut short": (cut, f"{NEWEST}/optimizer.pt", 8, "12: optimizer.pt has "),
    "no optimizer": (Path.unlink, f"{NEWEST}/optimizer.pt", 8, "12: optimizer.pt is missing; it is not used"),
    "a bit of the schedule": (flip, f"{NEWEST}/scheduler.pt", 8, f"scheduler.pt {ASIDE}"),
    "a bit of the random streams": (flip, f"{NEWEST}/rng_state.pth", 8, f"rng_state.pth {ASIDE}"),
    "a bit of the trainer's state": (flip, f"{NEWEST}/trainer_state.json", 8, f"trainer_state.json {ASIDE}"),
    "an empty marker": (empty, f"{NEWEST}/whole.json", 8, MARKED),
    "a bit of the marker": (flip, f"{NEWEST}/whole.json", 8, MARKED),
    "another marker": (wrong, f"{NEWEST}/whole.json", 8, MARKED),
    "no marker": (Path.unlink, f"{NEWEST}/whole.json", 8, "12: it was not saved to its end; it is not used"),
    "no newest checkpoint": (shutil.rmtree, NEWEST, 8, "came to step 12; the steps after 8 are trained again"),
    "an empty token": (empty, "owner.json", 12, "takes over from a run whose owner.json cannot be read"),
    "an empty record of the run": (empty, "run.json", 12, "run.json: damaged; which code trained the steps"),
    "another record of the run": (wrong, "run.json", 12, "run.json: damaged; which code trained the steps"),
    "an empty record of publishing": (empty, "published.json", 12, "resumes at step 12"),
    "no log of metrics": (
        Path.unlink,
        "metrics.jsonl",
        12,
        "metrics.jsonl: not there; what it said of the steps until 12 is lost",
    ),
}


@pytest.fixture(scope="module")
def undisturbed(origin, shards, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = forked.run(command(origin, shards, folder))
    assert done.returncode == 0, done.stderr
    return folder


def weights(folder: Path) -> str:
    return sha256_file(folder / "out/model.safetensors")


@pytest.fixture
def work(undisturbed, tmp_path) -> Path:
    """The work folder of a run that was killed after its last checkpoint."""
    shutil.copytree(undisturbed / "work", tmp_path / "work")
    (folder,) = (tmp_path / "work").iterdir()
    (folder / "owner.json").write_text("{}")
    return folder


OFTEN = ("a bit of the weights", "an optimizer cut short", "no marker", "an empty token", "another record of the run")


@pytest.mark.parametrize("damage", often(OFTEN, [name for name in DAMAGES if name not in OFTEN]))
def test_after_any_damage_a_stage_ends_with_the_weights_of_an_undisturbed_run(
    undisturbed, work, origin, shards, tmp_path, damage
):
    harm, name, step, line = DAMAGES[damage]
    harm(work / name)
    done = forked.run(command(origin, shards, tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"tiny: resumes at step {step}, work in" in done.stderr
    assert "Traceback" not in done.stderr
    assert weights(tmp_path) == weights(undisturbed)
    assert line in done.stderr
    found_by_hash = step == 8 and harm in (flip, zeros) and "whole" not in name
    assert done.stderr.count(ASIDE) == found_by_hash


def test_a_file_in_the_place_of_the_work_folder_is_one_line(work, origin, shards, tmp_path):
    shutil.rmtree(work)
    work.write_text("")
    done = forked.run(command(origin, shards, tmp_path))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"error: {work}: a file, where the stage keeps its checkpoints; move it away"
    )


def test_a_checkpoint_that_cannot_be_loaded_is_set_aside_and_the_next_try_resumes_before_it(
    undisturbed, work, origin, shards, tmp_path
):
    made_by = read_marker(work / NEWEST)["made_by"]
    (work / NEWEST / "model.safetensors").write_bytes(b"no weights")
    mark_complete(work / NEWEST, made_by)
    done = forked.run(command(origin, shards, tmp_path))
    assert done.returncode == 1 and "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert re.match(r"fault: \S+checkpoint-12: cannot be loaded; the next try resumes from an older", last), last
    done = forked.run(command(origin, shards, tmp_path))
    assert done.returncode == 0 and "tiny: resumes at step 8" in done.stderr
    assert weights(tmp_path) == weights(undisturbed)


def test_a_work_folder_on_another_disk_is_published_too(undisturbed, origin, shards, tmp_path):
    """A rename from one disk to another fails, so what is published is made beside its place."""
    disks = [Path("/dev/shm"), Path(tempfile.gettempdir())]
    others = [disk for disk in disks if os.access(disk, os.W_OK) and disk.stat().st_dev != tmp_path.stat().st_dev]
    if not others:
        pytest.skip("needs a second file system: /dev/shm")
    other = Path(tempfile.mkdtemp(prefix="stagecraft-", dir=others[0]))
    try:
        (tmp_path / "work").symlink_to(other)
        done = forked.run(command(origin, shards, tmp_path))
        assert done.returncode == 0, done.stderr
        assert weights(tmp_path) == weights(undisturbed)
    finally:
        shutil.rmtree(other)
