"""Read and summarize a model's timed runs.

    figures(runs, Latency(new_tokens=512))     # {"answer_seconds": {"value": the median}, ...}

A run is a dict with `first_token_seconds` and `seconds`, measured from the start until the first token is there and
until the last one is.
"""

from pathlib import Path
from statistics import median

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.evaluation.results.intervals import median_interval
from scripts.evaluation.results.items import AGAIN, settings_differences
from scripts.experiment.settings.evaluation import Latency
from scripts.experiment.settings.record import to_dict

RUNS = 10  # timed runs; an interval at 95% needs at least 6
# metric → its value for a run that generated `tokens` tokens
METRICS = {
    "first_token_seconds": lambda run, tokens: run["first_token_seconds"],
    "answer_seconds": lambda run, tokens: run["seconds"],
    "tokens_per_second": lambda run, tokens: (tokens - 1) / (run["seconds"] - run["first_token_seconds"]),
}


def read_latency(folder: Path, settings: Latency, seed: int, confidence: float) -> dict:
    """A model's figures with the interval of each median, or `{"not_applicable": reason}`.

    Args:
        folder: holds the model's scores.json and items.jsonl.zst.
        settings, seed: those that the model should have been timed with.

    Raises:
        UserError: a file is malformed, the two do not agree, or other settings made them.
    """
    path = folder / "scores.json"
    scores = read_json(path)
    try:
        timed_with, reason, written = scores["settings"], scores["not_applicable"], scores["figures"]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: {error} is missing; {AGAIN}") from error
    if differences := settings_differences(timed_with, to_dict(settings) | {"seed": seed}):
        raise UserError(f"{path}: timed with other settings: {differences}; {AGAIN}")
    runs = list(read_jsonl(folder / "items.jsonl.zst"))
    try:
        agrees = written == (figures(runs, settings) if runs else None) and len(runs) in (0, RUNS)
    except (KeyError, TypeError, ArithmeticError):
        agrees = False
    if not agrees or isinstance(reason, str) == bool(runs):
        raise UserError(f"{path}: does not agree with the {len(runs)} runs in items.jsonl.zst; {AGAIN}")
    if not runs:
        return {"not_applicable": reason}
    intervals = {name: median_interval(values, confidence) for name, values in metric_values(runs, settings).items()}
    return written | {name: {**written[name], "interval": interval} for name, interval in intervals.items()}


def metric_values(runs: list[dict], settings: Latency) -> dict[str, list[float]]:
    """Each metric of each run."""
    return {name: [value(run, settings.new_tokens) for run in runs] for name, value in METRICS.items()}


def figures(runs: list[dict], settings: Latency) -> dict:
    """`{metric: {"value": median}}`."""
    return {name: {"value": median(values)} for name, values in metric_values(runs, settings).items()}
