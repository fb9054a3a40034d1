"""scripts/training/engine/pruning.py: what a resumed or repeated stage can use is kept, all other checkpoints go."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.files import write_json
from scripts.training.engine.checkpoint_folders import mark_complete
from scripts.training.engine.pruning import mark_published, mark_unfinished, remove_earlier, remove_published
from scripts.training.engine.run_lock import Ownership

KIB = 100


def save(run: Path, *steps: int, complete: bool = True) -> None:
    """Checkpoints of 100 KiB, and the logs of a run."""
    for step in steps:
        folder = run / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        (folder / "optimizer.pt").write_bytes(bytes(KIB << 10))
        if complete:
            mark_complete(folder, made_by={})
    (run / "metrics.jsonl").write_text("{}\n")


def own(run: Path, **changed) -> Ownership:
    """This process' claim on a run, some of its token's keys changed."""
    owner = Ownership(run)
    owner.token.update(changed)
    write_json(owner.path, owner.token)
    return owner


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
    save(earlier, 16, complete=False)
    save(run, 4)
    return earlier, run


def test_an_earlier_run_keeps_its_newest_whole_checkpoint_until_a_newer_one_is_published(runs):
    earlier, run = runs
    [line] = remove_earlier(run, keep_newest=True)
    assert line.startswith("removed 3 checkpoints of an earlier run, freed 300.")
    assert left(earlier) == ["checkpoint-12"]
    assert remove_earlier(run, keep_newest=True) == []
    [line] = remove_earlier(run, keep_newest=False)
    assert line.startswith("removed 1 checkpoint of an earlier run, freed 100.") and line.endswith(" KiB")
    assert left(earlier) == []
    assert left(run) == ["checkpoint-4"]


def test_a_run_is_left_alone_as_long_as_its_process_lives_and_not_longer(runs):
    earlier, run = runs
    claim = "import sys; from pathlib import Path; from scripts.training.engine.run_lock import Ownership"
    program = f"{claim}; Ownership(Path(sys.argv[1])); print('owns', flush=True); sys.stdin.read()"
    owner = subprocess.Popen(
        [sys.executable, "-c", program, earlier], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout.readline() == "owns\n"
    assert remove_earlier(run, keep_newest=False) == []
    assert len(left(earlier)) == 4
    owner.kill()  # it leaves its token
    owner.wait()
    assert len(remove_earlier(run, keep_newest=False)) == 1
    assert left(earlier) == []


@pytest.mark.parametrize("changed", [{"started": 1}, {"boot": "another"}])
def test_another_process_of_the_same_number_is_not_the_owner(runs, changed):
    earlier, run = runs
    own(earlier, **changed)
    assert len(remove_earlier(run, keep_newest=False)) == 1


def test_a_run_on_a_host_that_cannot_be_asked_is_left_alone_with_a_line(runs, monkeypatch, caplog):
    earlier, run = runs
    owner = own(earlier, host="elsewhere", pid=7)
    with caplog.at_level(logging.INFO):
        assert remove_earlier(run, keep_newest=False) == []
    assert len(left(earlier)) == 4
    line = f"process 7 on elsewhere may still work there; if not, remove {owner.path}"
    assert caplog.messages[-1] == f"kept the checkpoints of an earlier run: {line}"
    owner.path.unlink()
    assert len(remove_earlier(run, keep_newest=False)) == 1


@pytest.mark.parametrize(
    ("squeue", "removed"),
    [
        ("echo RUNNING", False),
        ("echo PENDING", False),  # requeued
        ("true", True),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", True),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", False),
    ],
)
def test_slurm_tells_whether_a_job_on_another_host_runs(runs, monkeypatch, tmp_path, squeue, removed):
    earlier, run = runs
    owner = own(earlier, host="n2", job="41234")
    program = tmp_path / "bin/squeue"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncase "$*" in *"--jobs 41234 "*) {squeue} ;; *) exit 9 ;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert bool(remove_earlier(run, keep_newest=False)) == removed
    assert (left(earlier) == []) == removed
    # what Slurm has given up and lives on all the same ends at its next step
    assert owner.is_lost() == removed


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


def test_two_stages_that_start_at_once_from_one_model_may_both_remove_its_checkpoints(runs, tmp_path, monkeypatch):
    _, run = runs
    publish(tmp_path / "train/sft")
    mark_published(run, tmp_path / "train/sft")
    unlink = os.unlink

    def too_late(path, *, dir_fd=None):
        unlink(path, dir_fd=dir_fd)  # by the other one
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", too_late)
    assert len(remove_published(run.parent, tmp_path / "train/sft")) == 1
    assert left(run) == []
