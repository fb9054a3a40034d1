"""Ratings by people: write a blind sheet of what the models generated, read the filled ones, score the models.

    python -m scripts.evaluation.suites.human_ratings --suite results/evaluation/qa --models base sft --seed 42 \\
        --settings '{"of": "qa", "samples": 50, "sheets": ["anna.csv"]}' --out results/evaluation/human_ratings

`sheet.csv` goes to each rater; `key.json` says which model wrote which row, so raters must not see it. Rows are ordered
by a hash of their texts, and models that wrote the same share a row: neither a row's place nor its name reveals a
model. An item's `correct` is the share of raters that called its response correct.
"""

import csv
import hashlib
import io
import json
import re
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json, read_jsonl, write_json, write_jsonl
from scripts.common.options import command
from scripts.evaluation.metrics.metric import by_language, means, summarize
from scripts.evaluation.suites import About
from scripts.experiment.settings.record import Record, Text, Unique

PLACE = 10
ABOUT = About("Share of responses that people called correct, 0 to 1, rated blindly. More is better.", needs_gpu=False)
SUITE = means("correct")._replace(paired=False)  # of models of further seeds there is no sheet

COLUMNS = ("row", "language", "prompt", "reference", "response", "correct", "comment")
ANSWERS = {"yes": True, "y": True, "true": True, "1": True, "no": False, "n": False, "false": False, "0": False}
LONGEST = 16_000  # characters of a cell: a spreadsheet cuts at 32,767 UTF-16 units


class Settings(Record):
    """Off unless given. People rate the outputs of another suite on rating sheets that do not name the models."""

    of: Literal["qa", "bleu", "keywords", "code"] = Field(
        description="The suite whose outputs are rated; it must be part of the experiment."
    )
    samples: int = Field(
        50,
        ge=1,
        description="Maximum number of items per dataset; the sheet has one row for each distinct output of the"
        " models.",
    )
    sheets: Annotated[list[Text], Unique] = Field(
        [],
        description="Filled sheets (CSV), one per rater and named after the rater. Without any, only the blank sheet"
        " is written.",
    )


def check(settings: Settings, experiment, key: str) -> None:
    """Check that people rate outputs that a suite generates, and that their sheets are there. Raises UserError: the
    suite is not configured, or a sheet is not there; the line starts with `key`."""
    if getattr(experiment.evaluation, settings.of) is None:
        raise UserError(f"{key}.of: {settings.of} is not configured; add evaluation.{settings.of}")
    raters = {}
    for number, sheet in enumerate(settings.sheets):
        if not Path(sheet).is_file():
            raise UserError(f"{key}.sheets.{number}: {sheet}: no such file")
        other = raters.setdefault(Path(sheet).stem, sheet)
        if other != sheet:
            raise UserError(f"{key}.sheets.{number}: {sheet} has the rater's name of {other}; rename one")


def small(settings: Settings, items: int) -> dict:
    return {"samples": items, "sheets": []}


def digest(*parts: object) -> str:
    """The hex sha256 of some values."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def draw(items: list[dict], samples: int, seed: int) -> set[tuple[str, str]]:
    """(dataset, id) of at most `samples` items of each dataset, those with the smallest hash of seed and id."""
    chosen = set()
    for dataset in dict.fromkeys(item["dataset"] for item in items):
        names = [item["id"] for item in items if item["dataset"] == dataset]
        names.sort(key=lambda name: digest(seed, name))
        chosen.update((dataset, name) for name in names[:samples])
    return chosen


def make_rows(suite: Path, models: list[str], samples: int, seed: int) -> dict[str, dict]:
    """Row name → its texts, its item and the models that wrote it; in the order of the sheet."""
    rows, chosen = {}, None
    for model in models:
        items = list(read_jsonl(suite / model / "items.jsonl.zst"))
        chosen = chosen or draw(items, samples, seed)
        drawn = [item for item in items if (item["dataset"], item["id"]) in chosen]
        if len(drawn) < len(chosen):
            raise UserError(
                f"{suite / model}: {len(chosen) - len(drawn)} items of {models[0]} are missing; score again"
            )
        for item in drawn:
            shown = {name: item[name] for name in ("dataset", "id", "language", "prompt", "reference")}
            shown["response"] = item["written"][0]
            name = digest(seed, shown)[:16]
            rows.setdefault(name, {**shown, "models": []})["models"].append(model)
    return dict(sorted(rows.items()))


def cell(text: str) -> str:
    """A cell's text; an apostrophe before what a spreadsheet would take for a formula."""
    if len(text) <= LONGEST:
        shown = text
    else:
        shown = f"{text[:LONGEST]} … ({len(text) - LONGEST:,} characters more)"
    if re.match(r"\s*[=+\-@]", shown):
        return f"'{shown}"
    return shown


def write_sheet(path: Path, rows: dict[str, dict]) -> None:
    """Write the blank sheet, with a byte-order mark, without which Excel reads UTF-8 as the local code page."""
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(COLUMNS)
        for name, row in rows.items():
            texts = [cell(row[column]) for column in ("language", "prompt", "reference", "response")]
            writer.writerow([f"r{name}", *texts, "", ""])


def read_sheet(path: Path, rows: dict[str, dict]) -> dict[str, bool]:
    """Row name → whether the rater called its response correct."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 text; save it as `CSV UTF-8`") from None
    first = text.partition("\n")[0].strip()
    delimiter = next((mark for mark in ",;\t" if first.replace('"', "").split(mark) == list(COLUMNS)), None)
    if delimiter is None:
        raise UserError(f"{path}: its first line is {first!r:.80}, must be {','.join(COLUMNS)}; save it as `CSV UTF-8`")
    ratings = {}
    try:
        for record in csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            name, answer = record["row"].removeprefix("r"), (record["correct"] or "").strip().lower()
            if not name:
                continue  # an empty line that a spreadsheet adds
            if name not in rows:
                raise UserError(f"{path}: row {record['row']!r:.40}: not in this run's sheet; rate that one")
            if name in ratings:
                raise UserError(f"{path}: row {record['row']!r}: occurs twice; keep one")
            if answer not in ANSWERS:
                raise UserError(f"{path}: row {record['row']!r}: correct is {answer!r:.40}, must be yes or no")
            ratings[name] = ANSWERS[answer]
    except csv.Error as error:
        raise UserError(f"{path}: malformed CSV, {error}; save it as `CSV UTF-8`") from error
    missing = [name for name in rows if name not in ratings]
    if missing:
        raise UserError(f"{path}: row 'r{missing[0]}': missing (and {len(missing) - 1} more rows)")
    return ratings


def agreement(ratings: list[dict[str, bool]]) -> float | None:
    """The share of pairs of raters that agree, averaged over rows; None with fewer than two raters."""
    equal = []
    for first, second in combinations(ratings, 2):
        for name in first:
            equal.append(first[name] == second[name])
    return fmean(equal) if equal else None


def rate(suite: Path, models: list[str], settings: Settings, seed: int, out: Path) -> dict:
    """Write the sheet and its key, `agreement.json`, and of filled sheets each model's items and scores.

    Args:
        suite: the folder of the suite whose outputs are rated.

    Returns:
        The content of agreement.json: `rows`, `raters` (each with the share that it called correct), `agreement`.

    Raises:
        UserError: the models' items differ, or a filled sheet is not this run's.
    """
    rows = make_rows(suite, models, settings.samples, seed)
    ratings = {Path(sheet).stem: read_sheet(Path(sheet), rows) for sheet in settings.sheets}
    write_sheet(out / "sheet.csv", rows)
    write_json(out / "key.json", rows)
    for model in models if ratings else []:
        items = []
        for name, row in rows.items():
            if model in row["models"]:
                of_row = {rater: answers[name] for rater, answers in ratings.items()}
                texts = {column: row[column] for column in ("dataset", "id", "language", "prompt", "reference")}
                items.append(
                    {**texts, "written": [row["response"]], "correct": fmean(of_row.values()), "ratings": of_row}
                )
        items.sort(key=lambda item: (item["dataset"], item["id"]))
        scores = {}
        for dataset in dict.fromkeys(item["dataset"] for item in items):
            of_dataset = [item for item in items if item["dataset"] == dataset]
            scores[dataset] = by_language(of_dataset, lambda subset: summarize(SUITE, subset))
        scored = read_json(suite / model / "scores.json")
        facts = {"model": model, "model_sha256": scored["model_sha256"], "data": scored["data"]}
        write_jsonl(out / model / "items.jsonl.zst", items)
        write_json(out / model / "scores.json", facts | {"scores": scores})
    shares = {rater: fmean(answers.values()) for rater, answers in ratings.items()}
    result = {"rows": len(rows), "raters": shares, "agreement": agreement(list(ratings.values()))}
    write_json(out / "agreement.json", result)
    return result


if __name__ == "__main__":
    run(command(rate))
