"""scripts/training/engine/pruning.py: what a resumed or repeated stage can use is kept, all other checkpoints go."""

import os
import time
from pathlib import Path

import pytest

from scripts.common.files import write_json
from scripts.training.engine.pruning import (
    QUIET_SECONDS,
    mark_published,
    mark_unfinished,
    may_be_alive,
    remove_earlier,
    remove_published,
)

KIB = 100


def save(run: Path, *steps: int, whole: bool = True) -> None:
    """Checkpoints of 100 KiB, and the logs of a run."""
    for step in steps:
        folder = run / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "optimizer.pt").write_bytes(bytes(KIB << 10))
        if whole:
            write_json(folder / "whole.json", {"files": {"optimizer.pt": KIB << 10}})
    (run / "metrics.jsonl").write_text("{}\n")


def rest(run: Path) -> None:
    """Let the last change in a run be a little longer ago than any step takes."""
    then = time.time() - QUIET_SECONDS - 60
    for path in [run, *run.rglob("*")]:
        os.utime(path, (then, then))


def publish(out: Path, content: str = "a") -> None:
    write_json(out / "manifest.json", {"files": {"model.safetensors": content}})


def left(run: Path) -> list[str]:
    assert (run / "metrics.jsonl").is_file(), "logs are always kept"
    return sorted(folder.name for folder in run.glob("checkpoint-*"))


@pytest.fixture
def runs(tmp_path) -> tuple[Path, Path]:
    """An earlier run of a stage that ended long ago, and the run that now starts."""
    earlier, run = tmp_path / "work/sft/0123", tmp_path / "work/sft/4567"
    save(earlier, 4, 8, 12)
    save(earlier, 16, whole=False)
    rest(earlier)
    save(run, 4)
    return earlier, run


def test_an_earlier_run_keeps_its_newest_whole_checkpoint_until_a_newer_one_is_published(runs):
    earlier, run = runs
    [line] = remove_earlier(run, keep_newest=True)
    assert line.startswith("removed 3 checkpoints of an earlier run, freed 300.")
    assert left(earlier) == ["checkpoint-12"]
    assert remove_earlier(run, keep_newest=True) == []
    rest(earlier)
    [line] = remove_earlier(run, keep_newest=False)
    assert line.startswith("removed 1 checkpoint of an earlier run, freed 100.") and line.endswith(" KiB")
    assert left(earlier) == []
    assert left(run) == ["checkpoint-4"]


def test_a_run_that_may_be_alive_is_left_alone(runs):
    earlier, run = runs
    with (earlier / "metrics.jsonl").open("a") as file:
        file.write("{}\n")
    assert may_be_alive(earlier)
    assert remove_earlier(run, keep_newest=False) == []
    assert len(left(earlier)) == 4


def test_a_published_run_keeps_its_checkpoints_until_it_is_recorded_as_finished(runs, tmp_path):
    """Killed before that, Snakemake deletes the model and runs the stage again."""
    earlier, run = runs
    out = tmp_path / "train/sft"
    publish(out)
    assert remove_published(run.parent, out) == []
    mark_published(run, out)
    [line] = remove_published(run.parent, out)
    assert line.startswith("removed 1 checkpoint of finished stage sft, freed 100.")
    assert left(run) == [] and len(left(earlier)) == 4


@pytest.mark.parametrize("change", ["another model", "no model", "trained again"])
def test_a_run_whose_model_is_no_longer_published_keeps_its_checkpoints(runs, tmp_path, change):
    _, run = runs
    out = tmp_path / "train/sft"
    publish(out)
    mark_published(run, out)
    if change == "another model":
        publish(out, "b")
    elif change == "no model":
        (out / "manifest.json").unlink()
    else:
        mark_unfinished(run)
    assert remove_published(run.parent, out) == []
    assert left(run) == ["checkpoint-4"]


def test_a_finished_earlier_run_keeps_nothing_however_recent(runs, tmp_path):
    earlier, run = runs
    publish(tmp_path / "train/sft")
    mark_published(earlier, tmp_path / "train/sft")
    [line] = remove_earlier(run, keep_newest=True)
    assert line.startswith("removed 4 checkpoints of an earlier run, freed 400.")
    assert left(earlier) == []


def test_without_other_runs_there_is_nothing_to_remove(tmp_path):
    assert remove_published(tmp_path / "none", tmp_path / "train/none") == []
    save(tmp_path / "work/sft/0123", 4)
    assert remove_earlier(tmp_path / "work/sft/0123", keep_newest=False) == []
