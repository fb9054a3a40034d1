"""benchmarks/bench_gpu.py runs on the CPU, too: a GPU is too dear to find its mistakes on."""

import pytest

from benchmarks.bench_gpu import measure


@pytest.mark.parametrize("trainer", ["stagecraft", "trl"])
def test_a_line_of_the_benchmark_of_gpus_can_be_tried_on_the_cpu(trainer):
    case = {"shape": "tiny", "method": "lora", "trainer": trainer, "attention": "best", "liger": "auto"}
    result = measure({**case, "device": "cpu", "rows": 2, "length": 64})
    assert result["attention"] == "sdpa" and not result["liger"]
    assert result["tokens_per_second"] > 0
