"""scripts/training/planning/speed.py beside published speeds, for narrow and wide models, short and long rows."""

import statistics

import pytest

from benchmarks.published_plans import pretraining_errors
from scripts.training.planning.parameters import counts
from scripts.training.planning.speed import gpu_seconds, operations
from tests.training.conftest import machine
from tests.training.test_plan import QWEN_7B, stage


def test_planned_speeds_are_near_those_that_llm_foundry_published():
    errors = [abs(error) for error in pretraining_errors()]
    assert statistics.median(errors) < 0.10 and max(errors) < 0.30


def test_a_wide_model_with_short_rows_reaches_the_mfu_of_the_machine_file():
    """Of 128 tokens attention is nothing; the width is a little below that of the reference."""
    here = machine(gpus=1, gpu_tflops=100, mfu=0.5)
    settings = stage(sequence_length=128)
    work = operations(QWEN_7B, settings, counts(QWEN_7B, settings), recomputed=0)
    assert work.model / gpu_seconds(work, QWEN_7B, here) == pytest.approx(0.5 * 100e12, rel=0.02)
