"""benchmarks/bench_gpu.py runs on the CPU, too: a GPU is too dear to find its mistakes on."""

from benchmarks.bench_gpu import TRAINERS, measure, row


def test_a_row_of_the_benchmark_of_gpus_can_be_tried_on_the_cpu():
    case = {"shape": "tiny", "method": "lora", "device": "cpu", "rows": 2, "length": 64}
    results = {name: measure({**case, "trainer": name}) for name in TRAINERS}
    for result in results.values():
        assert result["attention"] == "sdpa" and result["tokens_per_second"] > 0
    rates = [float(text.replace(",", "")) for text in row("tiny-lora", results)[2:5]]
    assert min(rates) > 0 and row("tiny-lora", results)[5] > 0
    assert row("tiny-lora", {})[2:5] == ["-"] * 3
