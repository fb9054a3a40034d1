"""Summarize a model's timed runs: medians, p95, throughput.

    figures(runs, Latency(new_tokens=512, runs=10, batches=[1, 2, 4]))

A run is a dict with `batch` (rows), `run` (1, 2, ...), `first_token_seconds` and `seconds`, measured from the start
until all rows have their first token and their last. Runs are in the order of the batches, which end where memory did.
"""

from statistics import median

from scripts.experiment.settings.evaluation import Latency

# metric → its value for a run at batch 1 that generated `tokens` tokens
METRICS = {
    "first_token_seconds": lambda run, tokens: run["first_token_seconds"],
    "answer_seconds": lambda run, tokens: run["seconds"],
    "tokens_per_second": lambda run, tokens: (tokens - 1) / (run["seconds"] - run["first_token_seconds"]),
}


def metric_values(runs: list[dict], settings: Latency) -> dict[str, list[float]]:
    """Each metric of each run at batch 1."""
    batch_of_one = [run for run in runs if run["batch"] == 1]
    return {name: [value(run, settings.new_tokens) for run in batch_of_one] for name, value in METRICS.items()}


def p95(name: str, values: list[float]) -> float:
    """The value that 95% of the runs are no worse than: the smallest such time, or the largest such rate."""
    return sorted(values, reverse=name == "tokens_per_second")[-(-95 * len(values) // 100) - 1]


def figures(runs: list[dict], settings: Latency) -> dict:
    """`{metric: {"value": median, "p95"}}` at batch 1, and over all batches:

    `throughput`, for each `batch` its `tokens_per_second`: tokens of all rows, the first ones included, over the median
    seconds of a run; `out_of_memory`, the batch that did not fit into memory, or None.
    """
    medians = {
        name: {"value": median(values), "p95": p95(name, values)}
        for name, values in metric_values(runs, settings).items()
    }
    batches_run = len(runs) // settings.runs
    seconds = {
        batch: median(run["seconds"] for run in runs if run["batch"] == batch)
        for batch in settings.batches[:batches_run]
    }
    return medians | {
        "throughput": [
            {"batch": batch, "tokens_per_second": batch * settings.new_tokens / median_seconds}
            for batch, median_seconds in seconds.items()
        ],
        "out_of_memory": next(iter(settings.batches[batches_run:]), None),
    }
