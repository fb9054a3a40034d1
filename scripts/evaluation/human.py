"""Correctness as rated by people: read the filled rating sheets, score the models, and measure how far raters agree.

    python -m scripts.evaluation.human --key results/evaluation/sheet/key.json --sheets anna.csv bo.csv \\
        --out results/evaluation/human

An item's `correct` is the share of raters that called its response correct. Without sheets nothing is scored.
"""

from pathlib import Path
from statistics import fmean

from scripts.common.cli import parser, run
from scripts.common.files import read_json, write_json, write_jsonl
from scripts.evaluation.metrics.human_ratings import SUITE, agreement, alpha
from scripts.evaluation.metrics.metric import by_language, summarize
from scripts.evaluation.results.blank_sheets import cells
from scripts.evaluation.results.filled_sheets import Rating, read_ratings


def make_items(key: dict, model: str, ratings: dict[str, dict[str, Rating]]) -> list[dict]:
    """The items of a model, sorted by dataset and id.

    Args:
        key: content of key.json.
        ratings: rater → row → rating.
    """
    items = []
    for name, row in key["rows"].items():
        if model in row["models"]:
            of_row = {rater: rows[name] for rater, rows in ratings.items()}
            items.append(
                {
                    **{column: row[column] for column in ("dataset", "id", "language", "prompt", "reference")},
                    "written": [row["response"]],
                    "correct": fmean(rating.correct for rating in of_row.values()),
                    "ratings": {rater: rating.correct for rater, rating in of_row.items()},
                    "comments": {rater: rating.comment for rater, rating in of_row.items() if rating.comment},
                }
            )
    return sorted(items, key=lambda item: (item["dataset"], item["id"]))


def rate(key: dict, sheets: list[Path], out: Path) -> dict:
    """Write `agreement.json`, and for each model `items.jsonl.zst` and `scores.json` if there are sheets.

    Args:
        key: content of the sheet's key.json.
        sheets: one filled sheet per rater, named after the rater.

    Returns:
        The content of agreement.json: `sheet`, `rows`, `raters` (each with the share that it called correct),
        `agreement` and `alpha`.

    Raises:
        UserError: a sheet is incomplete or not this run's.
    """
    blank = cells(key["rows"])
    ratings = {path.stem: read_ratings(path, key["sheet"], blank) for path in sheets}
    for model, facts in key["models"].items() if sheets else []:
        items = make_items(key, model, ratings)
        scores = {
            dataset: by_language(
                [item for item in items if item["dataset"] == dataset], lambda subset: summarize(SUITE, subset)
            )
            for dataset in dict.fromkeys(item["dataset"] for item in items)
        }
        write_jsonl(out / model / "items.jsonl.zst", items)
        write_json(out / model / "scores.json", {"model": model, **facts, "scores": scores})
    units = [[rows[name].correct for rows in ratings.values()] for name in key["rows"]]
    result = {
        "sheet": key["sheet"],
        "rows": len(key["rows"]),
        "raters": {rater: fmean(rating.correct for rating in rows.values()) for rater, rows in ratings.items()},
        "agreement": agreement(units),
        "alpha": alpha(units),
    }
    write_json(out / "agreement.json", result)
    return result


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--key", type=Path, required=True, help="key.json of the sheet")
    arguments.add_argument("--sheets", type=Path, nargs="*", default=[], help="filled sheets, one of each rater")
    arguments.add_argument("--out", type=Path, required=True, help="folder for agreement, items and scores")
    args = arguments.parse_args()
    rate(read_json(args.key), args.sheets, args.out)


if __name__ == "__main__":
    run(main)
