"""A blinded score sheet: what the compared models wrote to the same questions, for people to call correct or not.

    python -m scripts.evaluation.sheet --suite results/evaluation/qa --out results/evaluation/sheet \\
        --settings '{"models": ["base", "sft"], "datasets": ["instruct"], "samples": 50, "seed": 42}'

`sheet.html` is a form for a browser, `sheet.csv` the same for a spreadsheet; `key.json` says which model wrote what and
is not for raters. Rows are in the order of a hash of seed, item and what the row shows, and models that wrote the same
text share a row: so neither a row's place nor its number tells anything of a model. Ratings belong to texts, and a
sheet's name is a hash of its texts.
"""

import csv
import hashlib
import json
import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.files import atomic, read_json, read_jsonl, write_json

COLUMNS = ("row", "language", "prompt", "reference", "response", "correct", "comment")
SHOWN = ("language", "prompt", "reference", "response")

# Characters of a cell: a spreadsheet cuts at 32,767 UTF-16 units, two of which some characters take.
LONGEST = 16_000

# What a spreadsheet would take for a formula (also as full-width signs), a number, a date or a truth value. An
# apostrophe before it makes it text. Also read by the form, so it is written in what Python and JavaScript share.
LIKE_DATES = "[ -~£¥€年月日时分秒]{0,15}"
CONVERTED = rf"^(?:[ \t\n]*[=+\-@＝＋－＠]|(?:{LIKE_DATES}[0-9]{LIKE_DATES}|true|false)(?![\s\S]))"
LETTERS = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrst")  # a spreadsheet takes 12e5 for a number


def plain(text: str) -> str:
    """A text as people see it: line ends as they are here, other control characters as their pictures, not too long."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", lambda found: chr(0x2400 + min(ord(found[0]), 0x21)), text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST:,} characters more)"


def guarded(text: str) -> str:
    """A cell that every spreadsheet takes for text."""
    return f"'{text}" if re.match(CONVERTED, text, re.IGNORECASE) else text


def digest(*parts: object) -> str:
    """The hex sha256 of some values."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read_written(suite: Path, model: str) -> dict[tuple[str, str], dict]:
    """(dataset, id) → item of a model.

    Raises:
        UserError: the file is unreadable or holds an item in which nothing is written.
    """
    path, found = suite / model / "items.jsonl.zst", {}
    for number, item in enumerate(read_jsonl(path), 1):
        try:
            item["written"][0], item["prompt"], item["reference"], item["language"]
            found[item["dataset"], item["id"]] = item
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(
                f"{path}: line {number}: no written text, {error!r}; delete the folder and run again"
            ) from error
    return found


def draw(written: dict[str, dict], datasets: list[str], samples: int, seed: int) -> list[tuple[str, str]]:
    """(dataset, id) of at most `samples` items of each dataset, those with the smallest hash of seed and id.

    Args:
        written: what `read_written` gives, of each model.

    Raises:
        UserError: a dataset has no items, or a model lacks one that is drawn.
    """
    (first, items), *others = written.items()
    drawn = []
    for dataset in datasets:
        ids = sorted((key for key in items if key[0] == dataset), key=lambda key: (digest(seed, *key), key))
        if not ids:
            raise UserError(f"evaluation.human.datasets: {first} wrote nothing for {dataset}")
        drawn += ids[:samples]
    for model, found in others:
        for dataset, identity in drawn:
            if (dataset, identity) not in found:
                raise UserError(f"{identity} of {dataset}: written by {first}, not by {model}; score both again")
    return drawn


def make_rows(written: dict[str, dict], drawn: list[tuple[str, str]], seed: int) -> tuple[str, dict[str, dict]]:
    """(the sheet's name, its rows by name, in order): a row has `dataset`, `id`, `models` and what SHOWN names."""
    rows = {}  # what a row shows → its facts
    for dataset, identity in drawn:
        for model, items in written.items():
            item = items[dataset, identity]
            texts = {"prompt": item["prompt"], "reference": item["reference"], "response": item["written"][0]}
            shown = {"language": item["language"], **{name: plain(text) for name, text in texts.items()}}
            # the id apart keeps two questions with the same words two
            place = digest(seed, dataset, identity, *shown.values())
            rows.setdefault(place, {"dataset": dataset, "id": identity, "models": [], **shown})["models"].append(model)
    places = sorted(rows)
    name, width = digest(places)[:8].translate(LETTERS), len(str(len(rows)))
    return name, {f"{name}-{number:0{width}}": rows[place] for number, place in enumerate(places, 1)}


def cells(rows: dict[str, dict]) -> list[dict[str, str]]:
    """The cells of a blank sheet."""
    blank = {"correct": "", "comment": ""}
    return [{"row": name, **{column: guarded(row[column]) for column in SHOWN}, **blank} for name, row in rows.items()]


def write_csv(path: Path, records: list[dict[str, str]]) -> None:
    """Write a sheet. With a byte-order mark, without which Excel takes UTF-8 for the local code page."""
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(records)


def form(name: str, rows: dict[str, dict]) -> str:
    """The form: one page that loads nothing. Texts are data to its script, which shows them as text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined
    )
    shown = [{"row": row, **{column: facts[column] for column in SHOWN}} for row, facts in rows.items()]
    return environment.get_template("sheet.html.j2").render(name=name, rows=shown, columns=COLUMNS, converted=CONVERTED)


def make_sheet(suite: Path, wanted: dict, out: Path) -> dict:
    """Write `sheet.csv`, `sheet.html` and `key.json`, and return the last.

    Args:
        suite: the folder of the suite that let the models write.
        wanted: `models`, `datasets`, `samples` (items per dataset), `seed`.

    Raises:
        UserError: the suite's files are missing, malformed or hold not the same items for all models.
    """
    written = {model: read_written(suite, model) for model in wanted["models"]}
    name, rows = make_rows(
        written, draw(written, wanted["datasets"], wanted["samples"], wanted["seed"]), wanted["seed"]
    )
    said = {model: read_json(suite / model / "scores.json") for model in written}
    facts = {model: {key: scores[key] for key in ("model_sha256", "data")} for model, scores in said.items()}
    key = {"sheet": name, "models": facts, "rows": rows}
    write_csv(out / "sheet.csv", cells(rows))
    with atomic(out / "sheet.html") as temporary:
        temporary.write_text(form(name, rows), encoding="utf-8")
    write_json(out / "key.json", key)
    return key


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--suite", type=Path, required=True, help="folder of the suite, a folder per model in it")
    arguments.add_argument("--settings", type=settings, required=True, help="models, datasets, samples, seed")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the sheet and its key")
    given = arguments.parse_args()
    make_sheet(given.suite, given.settings, given.out)


if __name__ == "__main__":
    run(main)
