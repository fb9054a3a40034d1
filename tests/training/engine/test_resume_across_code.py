"""scripts/training/engine/resume_across_code.py: a stage goes on from what other code trained only if asked to."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from scripts.common.errors import UserError
from scripts.training.engine.checkpoint_folders import step_of
from scripts.training.engine.resume_across_code import resume_anyway
from tests import forked
from tests.training.test_train import command

ANYWAY = {**os.environ, "RESUME": "anyway"}


def trained(origin: Path, shards: Path, folder: Path, code: str, env: dict | None = None, **changes) -> str:
    """Train in `folder` with this code to the end; the log."""
    folder.mkdir(exist_ok=True)
    words = command(origin, shards, folder, **changes)
    words[words.index("--code") + 1] = code
    done = forked.run(words, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def summary(folder: Path) -> dict:
    return json.loads((folder / "out/summary.json").read_text())


def interrupt(folder: Path, last: int) -> None:
    """Make the run in `folder` one that was killed after its checkpoint of step `last`."""
    run = next((folder / "work").iterdir())
    shutil.rmtree(folder / "out")
    (run / "published.json").unlink()
    for checkpoint in run.glob("checkpoint-*"):
        if step_of(checkpoint) > last:
            shutil.rmtree(checkpoint)


@pytest.fixture(scope="module")
def straight(origin, shards, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("straight")
    trained(origin, shards, folder, "old")
    return folder


@pytest.fixture
def killed(straight, tmp_path) -> Path:
    """A run by the code `old`, killed at step 8 of 12."""
    shutil.copytree(straight, tmp_path / "killed")
    interrupt(tmp_path / "killed", 8)
    return tmp_path / "killed"


def test_resume_anyway_goes_on_from_the_other_codes_checkpoint_and_says_where(origin, shards, straight, killed):
    log = trained(origin, shards, killed, "new", ANYWAY)
    assert "tiny: continues from step 8 of another version of the code (RESUME=anyway)" in log
    assert summary(killed)["code_changes"] == [{"step": 8, "from": "old", "to": "new"}]
    assert summary(killed)["resumed_at_step"] == 8
    assert len(list((killed / "work").iterdir())) == 1
    ours, theirs = (load_file(folder / "out/model.safetensors") for folder in (killed, straight))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    steps = [json.loads(line)["step"] for line in (killed / "out/metrics.jsonl").read_text().splitlines()]
    assert steps[:-1] == sorted(steps[:-1]) and len([step for step in steps if step == 9]) == 1


def test_without_the_option_the_stage_starts_over_and_its_log_names_the_option(origin, shards, killed):
    log = trained(origin, shards, killed, "new")
    assert "tiny: another version of the code has trained 8 steps; RESUME=anyway continues from there" in log
    assert summary(killed)["resumed_at_step"] == 0 and summary(killed)["code_changes"] == []


def test_a_kill_between_taking_over_and_writing_it_down_loses_nothing(origin, shards, killed, straight, tmp_path):
    """The folder has its new name, and run.json still the old code."""
    trained(origin, shards, tmp_path / "other", "new")
    run = next((killed / "work").iterdir())
    run.rename(killed / "work" / next((tmp_path / "other/work").iterdir()).name)
    trained(origin, shards, killed, "new")
    assert summary(killed)["code_changes"] == [{"step": 8, "from": "old", "to": "new"}]


def test_another_value_of_resume_is_a_one_line_error(monkeypatch):
    monkeypatch.setenv("RESUME", "always")
    with pytest.raises(UserError, match="RESUME=always: must be `anyway`"):
        resume_anyway()
