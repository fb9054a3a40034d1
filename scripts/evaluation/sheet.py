"""A blinded rating sheet: what the compared models generated for the same prompts, for people to rate.

    python -m scripts.evaluation.sheet --suite results/evaluation/qa --out results/evaluation/sheet --seed 42 \\
        --settings '{"of": "qa", "models": ["base", "sft"], "datasets": ["instruct"], "samples": 50}'

`sheet.html` is a form for a browser, `sheet.csv` the same for a spreadsheet; `key.json` says which model wrote what, so
raters must not see it. Rows are ordered by a hash of seed, item and texts, and models with the same text share a row:
neither a row's place nor its number reveals a model. Ratings belong to texts; a sheet's name is a hash of its texts.
"""

import csv
import hashlib
import json
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json, read_jsonl, write_json
from scripts.evaluation.results.blank_sheets import COLUMNS, CONVERTED, TEXT_COLUMNS, cells, plain
from scripts.experiment.settings.evaluation import Human

LETTERS = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrst")  # a spreadsheet takes 12e5 for a number

Key = tuple[str, str]  # (dataset, id)


def digest(*parts: object) -> str:
    """The hex sha256 of some values."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read_completions(suite: Path, model: str) -> dict[Key, dict]:
    """The items of a model.

    Raises:
        UserError: the file is unreadable, or an item has no completion.
    """
    path, items = suite / model / "items.jsonl.zst", {}
    for number, item in enumerate(read_jsonl(path), 1):
        try:
            item["written"][0], item["prompt"], item["reference"], item["language"]
            items[item["dataset"], item["id"]] = item
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(
                f"{path}: line {number}: no generated text, {error!r}; delete the folder and run again"
            ) from error
    return items


def draw(completions: dict[str, dict[Key, dict]], datasets: list[str], samples: int, seed: int) -> list[Key]:
    """At most `samples` items of each dataset, those with the smallest hash of seed and id.

    Args:
        completions: the items of each model.

    Raises:
        UserError: a dataset has no items, or a model lacks one that is drawn.
    """
    (first, items), *other_models = completions.items()
    chosen = []
    for dataset in datasets:
        keys = sorted((key for key in items if key[0] == dataset), key=lambda key: (digest(seed, *key), key))
        if not keys:
            raise UserError(f"evaluation.human.datasets: {first} has no items of {dataset}")
        chosen += keys[:samples]
    for model, its_items in other_models:
        for dataset, identity in chosen:
            if (dataset, identity) not in its_items:
                raise UserError(f"{first} has item {identity} of {dataset}, {model} has not; score both again")
    return chosen


def make_rows(completions: dict[str, dict], keys: list[Key], seed: int) -> tuple[str, dict[str, dict]]:
    """(the sheet's name, its rows by name in order); a row has `dataset`, `id`, `models` and `TEXT_COLUMNS`."""
    rows = {}  # hash of item and texts → row
    for dataset, identity in keys:
        for model, items in completions.items():
            item = items[dataset, identity]
            texts = {"prompt": item["prompt"], "reference": item["reference"], "response": item["written"][0]}
            shown = {"language": item["language"], **{name: plain(text) for name, text in texts.items()}}
            # with the id, two prompts with the same words stay two rows
            place = digest(seed, dataset, identity, *shown.values())
            rows.setdefault(place, {"dataset": dataset, "id": identity, "models": [], **shown})["models"].append(model)
    places = sorted(rows)
    name, width = digest(places)[:8].translate(LETTERS), len(str(len(rows)))
    return name, {f"{name}-{number:0{width}}": rows[place] for number, place in enumerate(places, 1)}


def write_csv(path: Path, records: list[dict[str, str]]) -> None:
    """Write a sheet, with a byte-order mark, without which Excel reads UTF-8 as the local code page."""
    with atomic(path) as temporary, temporary.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(records)


def form(name: str, rows: dict[str, dict]) -> str:
    """The form as HTML: one page that loads nothing else. Texts are data of its script, which shows them as text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True, undefined=StrictUndefined
    )
    texts = [{"row": row, **{column: facts[column] for column in TEXT_COLUMNS}} for row, facts in rows.items()]
    return environment.get_template("sheet.html.j2").render(name=name, rows=texts, columns=COLUMNS, converted=CONVERTED)


def make_sheet(suite: Path, settings: Human, seed: int, out: Path) -> dict:
    """Write `sheet.csv`, `sheet.html` and `key.json`, and return the last.

    Args:
        suite: the folder of the suite whose completions are rated.

    Raises:
        UserError: the suite's files are missing or malformed, or do not hold the same items for all models.
    """
    completions = {model: read_completions(suite, model) for model in settings.models}
    name, rows = make_rows(completions, draw(completions, settings.datasets, settings.samples, seed), seed)
    scores = {model: read_json(suite / model / "scores.json") for model in completions}
    models = {model: {key: scores[model][key] for key in ("model_sha256", "data")} for model in scores}
    key = {"sheet": name, "models": models, "rows": rows}
    write_csv(out / "sheet.csv", cells(rows))
    with atomic(out / "sheet.html") as temporary:
        temporary.write_text(form(name, rows), encoding="utf-8")
    write_json(out / "key.json", key)
    return key


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--suite", type=Path, required=True, help="folder of the suite, with a folder per model")
    arguments.add_argument("--settings", type=Human.from_json, required=True, help="of, models, datasets, samples")
    arguments.add_argument("--seed", type=int, required=True, help="the experiment's seed")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the sheet and its key")
    args = arguments.parse_args()
    make_sheet(args.suite, args.settings, args.seed, args.out)


if __name__ == "__main__":
    run(main)
