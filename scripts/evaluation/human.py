"""Correctness as people see it: filled score sheets read back, and how far their raters agree.

    python -m scripts.evaluation.human --key results/evaluation/sheet/key.json --sheets anna.csv bo.csv \\
        --out results/evaluation/human

An item's `correct` is the share of raters that called its response correct. Without sheets nothing is scored.
"""

from collections import Counter
from itertools import chain
from pathlib import Path
from statistics import fmean

from scripts.common.cli import parser, run
from scripts.common.files import read_json, write_json, write_jsonl
from scripts.evaluation.metrics.metric import by_language, means, summarize
from scripts.evaluation.results.filled_sheets import read_filled
from scripts.evaluation.sheet import cells

SUITE = means("correct")


def agreement(units: list[list]) -> float | None:
    """The share of pairs of raters that agree, a mean over units; None where none has two ratings.

    Args:
        units: of each unit its ratings, as many as there are.
    """
    shares = [
        sum(count * (count - 1) for count in Counter(ratings).values()) / (len(ratings) * (len(ratings) - 1))
        for ratings in units
        if len(ratings) > 1
    ]
    return fmean(shares) if shares else None


def alpha(units: list[list]) -> float | None:
    """Krippendorff's alpha for nominal ratings: 1 is agreement, 0 what chance would give.

    One less the observed disagreement within units over that expected of ratings drawn from all of them (Krippendorff
    2011, Computing Krippendorff's Alpha-Reliability, section C; units with one rating do not count). None where all
    ratings are the same, which leaves nothing to be reliable about.
    """
    paired = [ratings for ratings in units if len(ratings) > 1]
    totals = Counter(chain(*paired))
    number = totals.total()
    observed = sum(
        (len(ratings) ** 2 - sum(count**2 for count in Counter(ratings).values())) / (len(ratings) - 1)
        for ratings in paired
    )
    expected = number**2 - sum(count**2 for count in totals.values())
    return 1 - (number - 1) * observed / expected if expected else None


def make_items(key: dict, model: str, ratings: dict[str, dict]) -> list[dict]:
    """The items of a model, sorted by dataset and id.

    Args:
        ratings: rater → row → (correct, comment).
    """
    items = []
    for name, row in key["rows"].items():
        if model in row["models"]:
            said = {rater: rows[name] for rater, rows in ratings.items()}
            items.append(
                {
                    **{column: row[column] for column in ("dataset", "id", "language", "prompt", "reference")},
                    "written": [row["response"]],
                    "correct": fmean(correct for correct, _ in said.values()),
                    "ratings": {rater: correct for rater, (correct, _) in said.items()},
                    "comments": {rater: comment for rater, (_, comment) in said.items() if comment},
                }
            )
    return sorted(items, key=lambda item: (item["dataset"], item["id"]))


def rate(key: dict, sheets: list[Path], out: Path) -> dict:
    """Write `agreement.json`, and of each model `items.jsonl.zst` and `scores.json` where there are sheets; return the
    first: `sheet`, `rows`, `raters` (each with the share that it called correct), `agreement` and `alpha`.

    Args:
        key: of the sheet, as rule `sheet` writes it.
        sheets: a filled one of each rater, whose name the file has.

    Raises:
        UserError: a sheet is not whole or not this run's.
    """
    blank = cells(key["rows"])
    ratings = {path.stem: read_filled(path, key["sheet"], blank) for path in sheets}
    for model, facts in key["models"].items() if sheets else []:
        items = make_items(key, model, ratings)
        scores = {
            dataset: by_language(
                [item for item in items if item["dataset"] == dataset], lambda some: summarize(SUITE, some)
            )
            for dataset in dict.fromkeys(item["dataset"] for item in items)
        }
        write_jsonl(out / model / "items.jsonl.zst", items)
        write_json(out / model / "scores.json", {"model": model, **facts, "scores": scores})
    units = [[rows[name][0] for rows in ratings.values()] for name in key["rows"]]
    said = {
        "sheet": key["sheet"],
        "rows": len(key["rows"]),
        "raters": {rater: fmean(correct for correct, _ in rows.values()) for rater, rows in ratings.items()},
        "agreement": agreement(units),
        "alpha": alpha(units),
    }
    write_json(out / "agreement.json", said)
    return said


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--key", type=Path, required=True, help="key.json of the sheet")
    arguments.add_argument("--sheets", type=Path, nargs="*", default=[], help="filled sheets, one of each rater")
    arguments.add_argument("--out", type=Path, required=True, help="folder for agreement, items and scores")
    given = arguments.parse_args()
    rate(read_json(given.key), given.sheets, given.out)


if __name__ == "__main__":
    run(main)
