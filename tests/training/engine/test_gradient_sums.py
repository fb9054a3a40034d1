"""`grad_accum_dtype` of the machine file: the sum of a step's gradients in fp32, on two real ranks, and its memory."""

import json
import sys

import pytest

from scripts.common.errors import UserError
from scripts.training.planning.checks import check_sharding
from tests import forked
from tests.training.conftest import machine, stage
from tests.training.engine.gradient_sums import WIDTH
from tests.training.engine.test_parallel import QUICK
from tests.training.test_train import command, metrics, run_on_ranks


def sums(sharding: str, kind: str, offload: bool = False) -> dict:
    words = [sys.executable, "-m", "tests.training.engine.gradient_sums", sharding, str(offload), kind]
    done = forked.run_ranks(words, 2, QUICK)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))


def test_over_16_passes_fp32_sums_are_several_times_closer_to_the_exact_sum_and_take_what_the_plan_says():
    """What is left is each pass's own gradient, which is bf16 in both."""
    bf16, fp32, offloaded = sums("zero2", "auto"), sums("zero2", "fp32"), sums("zero2", "fp32", offload=True)
    assert 3e-3 < bf16["error"] < 6e-3
    assert fp32["error"] < bf16["error"] / 3
    assert offloaded["error"] == pytest.approx(fp32["error"])
    divided = 2 * WIDTH**2 // 2  # one flat buffer of a rank's half, on the GPU also with offload
    assert fp32["held"] == offloaded["held"] == {"torch.float32": divided}


@pytest.mark.parametrize("sharding", ["zero2", "zero3"])
def test_a_stage_in_bf16_trains_with_fp32_sums(origin, shards, tmp_path, sharding):
    words = command(
        origin,
        shards,
        tmp_path,
        {**machine(sharding=sharding, grad_accum_dtype="fp32", micro_batch=1).model_dump(exclude_none=True)},
        precision="bf16",
        steps=4,
        save_steps=4,
        eval_steps=4,
        global_batch=8,
    )
    done = run_on_ranks(words, 2, QUICK)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"2 processes, sharding {sharding}, gradients added up in fp32" in done.stderr
    losses = [entry["loss"] for entry in metrics(tmp_path / "out") if "loss" in entry]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    ("sharding", "optimizer", "says"),
    [
        ("none", "adamw", "is for ZeRO; with sharding none gradients are always fp32: leave it out"),
        ("fsdp2", "adamw", "is for ZeRO; with sharding fsdp2"),
        ("zero1", "adamw", "needs `sharding` zero2 or zero3, not zero1"),
        ("zero2", "muon", "cannot be used by training.train.sft: with `optimizer: muon`"),
    ],
)
def test_fp32_sums_that_would_have_no_effect_are_refused_in_one_line(sharding, optimizer, says):
    with pytest.raises(UserError, match=rf"machine: grad_accum_dtype: fp32 {says}") as refused:
        check_sharding("sft", stage(optimizer=optimizer), machine(sharding=sharding, grad_accum_dtype="fp32"))
    assert "\n" not in str(refused.value)
    check_sharding("sft", stage(optimizer=optimizer), machine(sharding=sharding))
