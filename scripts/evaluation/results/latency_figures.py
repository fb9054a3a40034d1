"""What timed runs of a model come to: medians, p95, throughput.

    figures(runs, {"new_tokens": 512, "runs": 10, "batches": [1, 2, 4]})

A run has `batch` (rows), `run` (1, 2, ...), `first_token_seconds` and `seconds`, from the start to the first token of
all rows and to the last. Runs stand in the order of the batches, as far as memory let them grow.
"""

from statistics import median

# Of a run at batch 1, with the number of tokens it wrote.
METRICS = {
    "first_token_seconds": lambda run, tokens: run["first_token_seconds"],
    "answer_seconds": lambda run, tokens: run["seconds"],
    "tokens_per_second": lambda run, tokens: (tokens - 1) / (run["seconds"] - run["first_token_seconds"]),
}


def measured(runs: list[dict], wanted: dict) -> dict[str, list[float]]:
    """Each metric of each run at batch 1."""
    alone = [run for run in runs if run["batch"] == 1]
    return {name: [of(run, wanted["new_tokens"]) for run in alone] for name, of in METRICS.items()}


def p95(name: str, values: list[float]) -> float:
    """What 95% of the runs are no worse than: the smallest such time, or the largest such rate."""
    return sorted(values, reverse=name == "tokens_per_second")[-(-95 * len(values) // 100) - 1]


def figures(runs: list[dict], wanted: dict) -> dict:
    """`{metric: {"value": median, "p95"}}`, and of all batches:

    `throughput`, of each `batch` its `tokens_per_second`: tokens of all rows, the first ones too, over the median
    seconds of a run; `out_of_memory`, the batch that memory did not suffice for, or None.
    """
    found = {
        name: {"value": median(values), "p95": p95(name, values)} for name, values in measured(runs, wanted).items()
    }
    done = len(runs) // wanted["runs"]
    seconds = {
        batch: median(run["seconds"] for run in runs if run["batch"] == batch) for batch in wanted["batches"][:done]
    }
    return found | {
        "throughput": [
            {"batch": batch, "tokens_per_second": batch * wanted["new_tokens"] / taken}
            for batch, taken in seconds.items()
        ],
        "out_of_memory": next(iter(wanted["batches"][done:]), None),
    }
