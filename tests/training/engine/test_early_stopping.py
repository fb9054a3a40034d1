"""scripts/training/engine/callbacks.py: early stopping and the best model, in each sharded mode as in a single
process."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from scripts.training.engine.callbacks import evaluations_without_improvement
from tests.training.conftest import MACHINE, often
from tests.training.test_train import command, metrics, run_on_ranks

# a rate at which the validation loss rises from the second evaluation on: the best checkpoint is the oldest
BEST = {
    "learning_rate": 0.1,
    "steps": 16,
    "eval_steps": 2,
    "save_steps": 3,
    "keep_checkpoints": 1,
    "keep_best": True,
    "early_stopping": {"patience": 3, "min_delta": 0.0},
}


def test_patience_counts_evaluations_since_the_last_improvement():
    assert evaluations_without_improvement([3, 2, 2.5, 2.1], 0) == 2
    assert evaluations_without_improvement([3, 2.95, 2.91, 2.7], 0.1) == 0
    assert evaluations_without_improvement([3, 2.95, 2.91], 0.1) == 2
    assert evaluations_without_improvement([], 0) == 0


def finished(origin: Path, shards: Path, folder: Path, sharding: str, ranks: int) -> dict:
    """The summary of a run to its end."""
    folder.mkdir(exist_ok=True)
    machine = {**MACHINE, "micro_batch_size": 1, "sharding": sharding}
    done = run_on_ranks(command(origin, shards, folder, machine, **BEST), ranks)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((folder / "out/summary.json").read_text())


@pytest.fixture(scope="module")
def single(origin, shards, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("single")
    finished(origin, shards, folder, "none", 1)
    return folder


def test_the_best_of_a_single_process_is_its_checkpoint_with_the_lowest_validation_loss(single):
    losses = {e["step"]: e["eval_loss"] for e in metrics(single / "out")[:-1] if "eval_loss" in e}
    assert list(losses) == [2, 4, 6, 8] and min(losses, key=losses.get) == 2
    checkpoint = load_file(next(single.glob("work/*/checkpoint-2/model.safetensors")))
    published = load_file(single / "out/model.safetensors")
    assert all(torch.equal(published[name], checkpoint[name]) for name in published)


@pytest.mark.parametrize("sharding", often(["zero2"], ["none", "zero3", "fsdp2"]))
def test_two_ranks_stop_where_one_process_does_and_publish_the_same_best_model(
    single, origin, shards, tmp_path, sharding
):
    same = ["steps", "best_step", "stopped_early"]
    reference = json.loads((single / "out/summary.json").read_text())
    theirs = load_file(single / "out/model.safetensors")
    for again in (False, True):
        if again:  # all was done and only the output is lost: no further step, the same model
            shutil.rmtree(tmp_path / "out")
        summary = finished(origin, shards, tmp_path, sharding, 2)
        assert [summary[name] for name in same] == [reference[name] for name in same] == [8, 2, True]
        for name in ("best_eval_loss", "eval_loss"):
            assert summary[name] == pytest.approx(reference[name], abs=1e-5)
        ours = load_file(tmp_path / "out/model.safetensors")
        assert ours.keys() == theirs.keys()
        for name in theirs:
            # softmax does not see what is added to all keys, so their bias has no gradient but rounding, of which Adam
            # makes whole steps
            error = 1e-3 if name.endswith("k_proj.bias") else 2e-4
            torch.testing.assert_close(ours[name], theirs[name], rtol=0, atol=error)
    assert summary["resumed_at_step"] == 8
