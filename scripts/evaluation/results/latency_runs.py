"""Read a model's timed runs for the gates, and check that they agree with the settings and with scores.json.

read_latency(Path("results/evaluation/latency/sft"), settings, seed=42, confidence=0.95)
"""

import math
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.evaluation.results.intervals import median_interval
from scripts.evaluation.results.items import AGAIN, settings_differences
from scripts.evaluation.results.latency_figures import figures, metric_values
from scripts.experiment.settings.evaluation import Latency
from scripts.experiment.settings.record import to_dict


def read_runs(path: Path, settings: Latency) -> list[dict]:
    """The runs of a model.

    Raises:
        UserError: the file is unreadable, a run is malformed, or the runs are not those of the settings.
    """
    runs, places = list(read_jsonl(path)), []
    for number, run in enumerate(runs, 1):
        try:
            first, last = run["first_token_seconds"], run["seconds"]
            if not 0 < first < last < math.inf:
                raise ValueError(f"first_token_seconds {first}, seconds {last}")
            places.append((run["batch"], run["run"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: line {number}: not a timed run, {error}; {AGAIN}") from error
    batches = settings.batches[: len(runs) // settings.runs]
    if places != [(batch, run) for batch in batches for run in range(1, settings.runs + 1)]:
        raise UserError(f"{path}: not {settings.runs} runs of each of the batches {settings.batches}; {AGAIN}")
    return runs


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
    runs = read_runs(folder / "items.jsonl.zst", settings)
    if written != (figures(runs, settings) if runs else None) or isinstance(reason, str) == bool(runs):
        raise UserError(f"{path}: does not agree with the {len(runs)} runs in items.jsonl.zst; {AGAIN}")
    if not runs:
        return {"not_applicable": reason}
    intervals = {name: median_interval(values, confidence) for name, values in metric_values(runs, settings).items()}
    return written | {name: {**written[name], "interval": interval} for name, interval in intervals.items()}
