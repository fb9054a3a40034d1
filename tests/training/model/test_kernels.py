"""scripts/training/model/kernels.py: the fastest kernel that is possible, and why not a faster one."""

import pytest

from scripts.training.model import kernels
from tests.training.conftest import machine, stage


@pytest.mark.parametrize(
    ("capability", "precision", "wrong", "expected"),
    [
        (None, "bf16", {}, "sdpa (no GPU)"),
        ((9, 0), "fp32", {}, "sdpa (precision fp32; the flash kernel computes in bf16)"),
        ((7, 5), "bf16", {}, "sdpa (the GPU's compute capability is 7.5; the flash kernel needs 8.0)"),
        ((8, 6), "bf16", {}, "varlen"),
        ((8, 6), "bf16", {"varlen": "it drops softcap"}, "flex_attention (not varlen: it drops softcap)"),
    ],
)
def test_the_fastest_attention_is_chosen_and_what_rules_out_a_faster_one_is_named(
    capability, precision, wrong, expected
):
    assert str(kernels.choose_attention(capability, precision, wrong)) == expected


@pytest.mark.parametrize(
    ("capability", "precisions", "changes", "expected"),
    [
        ((8, 0), ["bf16"], {}, "kernels: attention varlen, compiled layers on"),
        (
            (8, 0),
            ["bf16", "fp32"],
            {},
            "kernels: attention varlen for bf16 stages,"
            " attention sdpa (precision fp32; the flash kernel computes in bf16) for fp32 stages,"
            " compiled layers on",
        ),
        (
            None,
            ["bf16"],
            {"sharding": "zero3"},
            "kernels: attention varlen, compiled layers off (not tried with zero3);"
            " on GPUs of compute capability 8.0 or more",
        ),
    ],
)
def test_one_line_says_before_the_first_job_what_will_run(monkeypatch, capability, precisions, changes, expected):
    monkeypatch.setattr(kernels, "least_capability", lambda: capability)
    stages = [stage(precision=precision) for precision in precisions]
    assert kernels.kernels_line(machine(gpus=2, **changes), stages) == expected
