"""scripts/training/model/kernels.py: the fastest kernel that is possible, and why not a faster one."""

import pytest

from scripts.training.model.kernels import Installed, choose_attention, kernels_line
from tests.training.conftest import machine, stage

ALL, NO_FLASH, NOTHING = Installed(True, True), Installed(False, True), Installed(False, False)


@pytest.mark.parametrize(
    ("capability", "precision", "installed", "expected"),
    [
        (None, "bf16", ALL, "sdpa (no GPU)"),
        ((9, 0), "fp32", ALL, "sdpa (precision fp32; flash kernels compute in bf16)"),
        ((7, 5), "bf16", ALL, "sdpa (the GPU's compute capability is 7.5; flash kernels need 8.0)"),
        ((8, 6), "bf16", ALL, "flash_attention_2"),
        ((8, 6), "bf16", NO_FLASH, "varlen (PyTorch's own kernel; flash-attn is not installed)"),
        ((8, 6), "bf16", NOTHING, "sdpa (flash-attn is not installed, and this torch has no varlen kernel)"),
    ],
)
def test_the_fastest_attention_is_chosen_and_what_rules_out_a_faster_one_is_named(
    capability, precision, installed, expected
):
    assert str(choose_attention(capability, precision, installed)) == expected


@pytest.mark.parametrize(
    ("capability", "installed", "precisions", "changes", "expected"),
    [
        ((8, 0), ALL, ["bf16"], {}, "kernels: attention flash_attention_2, compiled layers on"),
        (
            (8, 0),
            NO_FLASH,
            ["bf16", "fp32"],
            {},
            "kernels: attention varlen (PyTorch's own kernel; flash-attn is not installed) for bf16 stages,"
            " attention sdpa (precision fp32; flash kernels compute in bf16) for fp32 stages,"
            " compiled layers on",
        ),
        (
            None,
            ALL,
            ["bf16"],
            {"sharding": "zero3"},
            "kernels: attention flash_attention_2, compiled layers off (not tried with zero3);"
            " on GPUs of compute capability 8.0 or more",
        ),
    ],
)
def test_one_line_says_before_the_first_job_what_will_run(capability, installed, precisions, changes, expected):
    stages = [stage(precision=precision) for precision in precisions]
    assert kernels_line(machine(gpus=2, **changes), stages, capability, installed) == expected
