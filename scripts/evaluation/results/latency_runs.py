"""A model's timed runs, read back for the gates: seen to be those of the settings, and what scores.json says of them.

read_timed(Path("results/evaluation/latency/sft"), settings, 0.95)
"""

import math
from pathlib import Path

from scripts.common.cli import UserError
from scripts.common.files import read_json, read_jsonl
from scripts.evaluation.results.intervals import median_interval
from scripts.evaluation.results.items import AGAIN
from scripts.evaluation.results.latency_figures import figures, measured


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
