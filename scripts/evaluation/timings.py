"""What timed runs of a model come to: medians, p95, throughput. Read back and checked for the gates.

    figures(runs, {"new_tokens": 512, "runs": 10, "batches": [1, 2, 4]})

A run has `batch` (rows), `run` (1, 2, ...), `first_token_seconds` and `seconds`, from the start to the first token of
all rows and to the last. Runs stand in the order of the batches, as far as memory let them grow.
"""

import math
from pathlib import Path
from statistics import median

from scripts.common.cli import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.evaluation.scores import AGAIN
from scripts.evaluation.statistics import median_interval

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


def read_runs(path: Path, wanted: dict) -> list[dict]:
    """The runs of a model.

    Raises:
        UserError: the file is unreadable, a run is none, or they are not those of the settings.
    """
    runs, places = list(read_jsonl(path)), []
    for number, run in enumerate(runs, 1):
        try:
            first, last = run["first_token_seconds"], run["seconds"]
            if not 0 < first < last < math.inf:
                raise ValueError(f"first_token_seconds {first}, seconds {last}")
            places.append((run["batch"], run["run"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: line {number}: no timed run, {error}; {AGAIN}") from error
    batches = wanted["batches"][: len(runs) // wanted["runs"]]
    if places != [(batch, run) for batch in batches for run in range(1, wanted["runs"] + 1)]:
        raise UserError(f"{path}: not {wanted['runs']} runs of each of the batches {wanted['batches']}; {AGAIN}")
    return runs


def read_timed(folder: Path, wanted: dict, confidence: float) -> dict:
    """A model's figures with the interval of each median, or `{"not_applicable": why}`.

    Args:
        folder: holds the model's scores.json and items.jsonl.zst.
        wanted: the settings that it should have been timed with.

    Raises:
        UserError: a file is malformed, they do not belong together, or other settings made them.
    """
    path = folder / "scores.json"
    said = read_json(path)
    try:
        settings, reason, told = said["settings"], said["not_applicable"], said["figures"]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: {error} is missing; {AGAIN}") from error
    if settings != wanted:
        raise UserError(f"{path}: timed with {settings}, not with {wanted}; {AGAIN}")
    runs = read_runs(folder / "items.jsonl.zst", wanted)
    if told != (figures(runs, wanted) if runs else None) or isinstance(reason, str) == bool(runs):
        raise UserError(f"{path}: does not say what the {len(runs)} runs in items.jsonl.zst come to; {AGAIN}")
    if not runs:
        return {"not_applicable": reason}
    intervals = {name: median_interval(values, confidence) for name, values in measured(runs, wanted).items()}
    return told | {name: {**told[name], "interval": interval} for name, interval in intervals.items()}
