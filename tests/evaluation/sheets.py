"""A suite's written texts, and filled sheets, made without the product's own writers."""

import csv
import hashlib
import json
from pathlib import Path

from scripts.evaluation.sheet import make_sheet
from scripts.experiment.settings.evaluation import Human
from tests.evaluation.synthetic import dump, dump_lines, sha

HEADER = ["row", "language", "prompt", "reference", "response", "correct", "comment"]
HOSTILE = [
    "=1+1",
    "</script><script>alert(1)</script>",
    "3.10",
    '"quoted", and; more\r\nlines\ttoo',
    "TRUE",
    "-- \x00\x1b[31m",
    "<!-- <script> ]]> &amp; ' {{ 7 * 7 }}",
    "",
]


def write_suite(folder: Path, written: dict[str, dict[str, str]], dataset: str = "chats") -> Path:
    """A suite's folder: `written` is model → id → text; languages go by turns, the first model's order is reversed."""
    for index, (model, texts) in enumerate(written.items()):
        items = [
            {
                "dataset": dataset,
                "id": identity,
                "language": ("go", "python")[number % 2],
                "prompt": f"explain {sha(identity)[:8]}",
                "reference": "它排序。\nIt sorts.",
                "written": [text, "a second sample"],
            }
            for number, (identity, text) in enumerate(texts.items())
        ]
        dump_lines(folder / model / "items.jsonl.zst", items if index else items[::-1])
        dump(folder / model / "scores.json", {"model_sha256": sha(model), "data": {dataset: sha(dataset)}})
    return folder


def texts(models: list[str], count: int) -> dict[str, dict[str, str]]:
    """A text of each model for `count` items, which does not show the model."""
    return {
        model: {f"c/{n}": f"text {hashlib.md5(f'{model}{n}'.encode()).hexdigest()}" for n in range(count)}
        for model in models
    }


def make(root: Path, written: dict[str, dict[str, str]], seed: int = 42, **changes) -> Path:
    """The folder of a sheet with all that is written."""
    settings = {"of": "qa", "models": list(written), "datasets": ["chats"], "samples": 100, **changes}
    make_sheet(write_suite(root / "suite", written), Human.parse(settings, "test"), seed, root / "sheet")
    return root / "sheet"


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a sheet, by Python's csv."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def fill(sheet: Path, path: Path, answer, encoding: str = "utf-8-sig", delimiter: str = ",") -> Path:
    """A filled sheet at `path`: `answer` says of a row's facts in the key what `correct` is to be."""
    rows = json.loads((sheet / "key.json").read_text())["rows"]
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, HEADER, delimiter=delimiter)
        writer.writeheader()
        writer.writerows({**row, "correct": answer(rows[row["row"]])} for row in read(sheet / "sheet.csv"))
    return path
