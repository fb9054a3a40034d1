"""scripts/training/engine/parallel.py: every mode trains the same model, on real ranks (torchrun, gloo, fp32)."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file
from transformers import Gemma3Config, Qwen2Config, Qwen3MoeConfig

from scripts.common.errors import UserError
from scripts.training.engine import parallel
from scripts.training.engine.pruning import folder_bytes
from scripts.training.planning.states import checkpoint_bytes
from tests import forked
from tests.training.conftest import MACHINE, machine, often, stage
from tests.training.test_train import command, metrics, on_ranks, ranks_of, run_on_ranks

# DeepSpeed compiles its iteration, which takes a minute and changes nothing here
QUICK = {**os.environ, "TORCHDYNAMO_DISABLE": "1", "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
# five validation rows: two ranks cannot divide them evenly, and the loss over them must still be that of one process
# A gentle warm-up: in Adam's first step a weight moves by the sign of its gradient, which for one of rounding errors
# depends on the order of sums.
STEPS = {"steps": 20, "warmup_steps": 10, "save_steps": 5, "eval_steps": 10, "eval_rows": 5}
MODES = {
    "ddp": ("none", False),
    "fsdp2": ("fsdp2", False),
    "zero2": ("zero2", False),
    "zero3": ("zero3", False),
    "zero2-offload": ("zero2", True),
    "zero3-offload": ("zero3", True),
}


def words(origin: Path, shards: Path, folder: Path, mode: str, micro: int = 1) -> list[str]:
    """The command line."""
    sharding, offload = MODES[mode]
    machine = {**MACHINE, "micro_batch_size": micro, "sharding": sharding, "offload": offload}
    return command(origin, shards, folder, machine, **STEPS)


def run(origin: Path, shards: Path, folder: Path, mode: str, ranks: int, micro: int = 1) -> subprocess.CompletedProcess:
    return run_on_ranks(words(origin, shards, folder, mode, micro), ranks, QUICK)


def kill_a_rank(origin: Path, shards: Path, folder: Path, mode: str, ranks: int) -> None:
    """Start, wait for the next whole checkpoint, `kill -9` one rank (the only process, if it is one), see all end."""
    before = set(folder.glob("work/*/checkpoint-*/whole.json"))
    started = [forked.python(), *on_ranks(words(origin, shards, folder, mode), ranks)[1:]]
    process = subprocess.Popen(started, stderr=subprocess.DEVNULL, env=QUICK)
    while not set(folder.glob("work/*/checkpoint-*/whole.json")) - before:
        assert process.poll() is None, "ended before its first checkpoint"
        time.sleep(0.002)
    ours = ranks_of(folder / "work") if ranks > 1 else [psutil.Process(process.pid)]
    assert len(ours) == ranks
    ours[-1].send_signal(signal.SIGKILL)
    assert process.wait(timeout=60) != 0
    assert not psutil.wait_procs(ours, timeout=10)[1], "a rank outlived the killed one"
    assert not (folder / "out/manifest.json").exists()


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in metrics(folder / "out") if "loss" in entry]


@pytest.fixture(scope="module")
def done(origin, shards, tmp_path_factory):
    """done(mode, ranks, micro): the folder of a straight run, made once, and what it said."""
    made = {}

    def get(mode: str, ranks: int, micro: int = 1) -> tuple[Path, str]:
        if (mode, ranks, micro) not in made:
            folder = tmp_path_factory.mktemp(f"{mode}-{ranks}-{micro}")
            result = run(origin, shards, folder, mode, ranks, micro)
            assert result.returncode == 0, result.stderr[-3000:]
            made[mode, ranks, micro] = folder, result.stderr
        return made[mode, ranks, micro]

    return get


def same_model(folder: Path, reference: Path, tolerance: float) -> None:
    ours, theirs = load_file(folder / "out/model.safetensors"), load_file(reference / "out/model.safetensors")
    assert set(ours) == set(theirs)
    for name, weight in theirs.items():
        assert ours[name].dtype == torch.float32
        torch.testing.assert_close(ours[name], weight, rtol=0, atol=tolerance)


def test_a_batch_of_four_rows_gives_the_losses_of_four_single_rows(done):
    """Rows hold unequal numbers of targets, so a mean of means would differ."""
    assert losses(done("ddp", 1, 1)[0]) == pytest.approx(losses(done("ddp", 1, 4)[0]), abs=1e-5)


@pytest.mark.parametrize("mode", often([mode for mode in MODES if mode != "zero3-offload"], ["zero3-offload"]))
def test_two_ranks_follow_one_process_and_publish_the_same_whole_model(done, mode):
    (single, _), (sharded, output) = done("ddp", 1, 4), done(mode, 2)
    name = {"none": "DDP"}.get(MODES[mode][0], MODES[mode][0])
    assert f"parallel: 2 processes, sharding {name}" in output
    assert ("optimizer in host memory" in output) == MODES[mode][1]
    assert "find_unused_parameters" not in output  # torch's warning about time that is lost in each step
    assert len(losses(sharded)) == 20
    assert losses(sharded) == pytest.approx(losses(single), abs=1e-5)
    same_model(sharded, single, 1e-4)
    [work] = (sharded / "work").iterdir()
    parameters = json.loads((sharded / "out/summary.json").read_text())["parameters"]
    sharding, offload = MODES[mode]
    known = checkpoint_bytes(
        stage(), machine(sharding=sharding, offload=offload), parameters, parameters, 8 * parameters
    )
    # random states, logs and scripts; FSDP2's format adds a KiB or two for each tensor's shard
    rest = (640 if sharding == "fsdp2" else 192) << 10
    assert 0 < folder_bytes(work / "checkpoint-20") - known < rest
    summary, reference = (json.loads((folder / "out/summary.json").read_text()) for folder in (sharded, single))
    assert summary["parameters"] == reference["parameters"]
    assert summary["eval_loss"] == pytest.approx(reference["eval_loss"], abs=1e-5)


def test_ddp_looks_for_missing_gradients_where_a_step_may_leave_some():
    plain, experts, images = Qwen2Config(), Qwen3MoeConfig(), Gemma3Config()
    assert [parallel.may_lack_gradients(config) for config in (plain, experts, images)] == [False, True, True]


def test_a_last_batch_that_is_not_full_has_the_same_loss_however_it_is_divided(origin, shards, tmp_path):
    """30 rows in batches of 8: the last one of an epoch holds 6, which two ranks of 4 rows cannot divide evenly."""
    runs = {}
    for ranks, micro in ((1, 4), (1, 2), (2, 4), (2, 1)):
        folder = tmp_path / f"{ranks}-{micro}"
        folder.mkdir()
        words = command(origin, shards, folder, {**MACHINE, "micro_batch_size": micro}, global_batch_size=8, steps=8)
        result = run_on_ranks(words, ranks, QUICK)
        assert result.returncode == 0, result.stderr[-3000:]
        runs[ranks, micro] = losses(folder)
    for steps in runs.values():
        assert steps == pytest.approx(runs[1, 4], abs=1e-5)


@pytest.mark.soak
def test_in_bf16_fsdp2_gives_the_losses_of_a_single_process(origin, shards, tmp_path):
    """Logits or sums of gradients in bf16 would be off by 0.01: it has no number between 6.22 and 6.25."""
    runs = {}
    for name, ranks, sharding in (("alone", 1, "none"), ("fsdp2", 2, "fsdp2")):
        (tmp_path / name).mkdir()
        machine = {**MACHINE, "micro_batch_size": 1, "sharding": sharding}
        words = command(origin, shards, tmp_path / name, machine, **STEPS, precision="bf16")
        result = run_on_ranks(words, ranks, QUICK)
        assert result.returncode == 0, result.stderr[-3000:]
        runs[name] = losses(tmp_path / name)
    assert runs["fsdp2"] == pytest.approx(runs["alone"], abs=5e-3)


@pytest.mark.parametrize("mode", often(["fsdp2"], ["zero3"]))
def test_sharded_modes_run_in_a_single_process_without_torchrun(done, mode):
    folder, output = done(mode, 1)
    assert f"parallel: 1 process, sharding {MODES[mode][0]}" in output
    assert losses(folder) == pytest.approx(losses(done("ddp", 1, 4)[0]), abs=1e-5)


@pytest.mark.soak
@pytest.mark.parametrize("mode", often(["zero2"], ["fsdp2"]))
def test_a_killed_rank_ends_all_and_the_next_start_ends_as_the_uninterrupted_run(done, origin, shards, tmp_path, mode):
    straight, _ = done(mode, 2)
    kill_a_rank(origin, shards, tmp_path, mode, 2)
    if mode == "zero2":
        refused = run(origin, shards, tmp_path, mode, 1)
        assert refused.returncode == 1
        assert "go on with sharding zero2 on 2 processes, or delete" in refused.stderr.splitlines()[-1]
    again = run(origin, shards, tmp_path, mode, 2)
    assert again.returncode == 0, again.stderr[-3000:]
    assert "resumes at step" in again.stderr
    assert losses(tmp_path) == pytest.approx(losses(straight), abs=1e-6)
    same_model(tmp_path, straight, 1e-6)


@pytest.mark.parametrize("mode", often(["fsdp2"], ["ddp"]))
def test_a_run_goes_on_with_another_number_of_ranks(done, origin, shards, tmp_path, mode):
    kill_a_rank(origin, shards, tmp_path, mode, 2)
    kill_a_rank(origin, shards, tmp_path, mode, 1)
    last = run(origin, shards, tmp_path, mode, 2)
    assert last.returncode == 0, last.stderr[-3000:]
    assert "resumes at step" in last.stderr
    assert losses(tmp_path) == pytest.approx(losses(done("ddp", 1, 4)[0]), abs=1e-5)


def layout(sharding: str, processes: int, offload: bool = False) -> parallel.Layout:
    return parallel.Layout(processes, sharding, offload)


@pytest.mark.parametrize(
    ("saved", "current"),
    [
        (layout("none", 4), layout("none", 1)),
        (layout("fsdp2", 8), layout("fsdp2", 6)),
        (layout("zero3", 2, True), layout("zero3", 2, True)),
    ],
)
def test_checkpoints_of_a_compatible_layout_are_resumed(saved, current):
    parallel.check_resumable(Path("work/checkpoint-4"), saved, current)


@pytest.mark.parametrize(
    ("saved", "current", "says"),
    [
        (layout("none", 1), layout("fsdp2", 1), "go on with sharding none, or"),
        (layout("zero3", 4), layout("zero3", 2), "go on with sharding zero3 on 4 processes, or delete work"),
        (layout("zero2", 2, True), layout("zero2", 2), "made by sharding zero2 with offload on 2 processes, cannot"),
    ],
)
def test_checkpoints_of_an_incompatible_layout_are_refused_and_the_line_names_a_compatible_one(saved, current, says):
    with pytest.raises(UserError, match=says):
        parallel.check_resumable(Path("work/checkpoint-4"), saved, current)
