"""Two runs problem by problem: what B gained and what it lost against A.

    python -m scripts.report.commands.compare --a results --b /elsewhere/results --out results/compare
    make compare A=results B=/elsewhere/results

Models of one name are compared, and the last stages whatever their names, on every dataset whose file was the same in
both runs, over the items that both scored. The table goes to the terminal; compare.svg shows each item's difference,
compare.json holds them by id.
"""

from pathlib import Path

import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure

from scripts.common.cli import UserError, parser, run
from scripts.common.files import write_json
from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.metrics.registry import suites
from scripts.evaluation.results.comparison import Measured
from scripts.evaluation.results.items import Documents, read_items
from scripts.report.content.report_data import read_evaluation
from scripts.report.content.text import interval, number, table
from scripts.report.plots import GREEN, GREY, RED, WIDTH, save

LISTED = 5  # ids of each kind in the terminal


def pairs(a: dict, b: dict) -> list[tuple[str, str]]:
    """The models (of A, of B) that are compared."""
    same = [(model, model) for model in a["scores"] if model in b["scores"]]
    return list(dict.fromkeys([*same, (list(a["stages"])[-1], list(b["stages"])[-1])]))


def together(a: dict[str, tuple], b: dict[str, tuple]) -> Documents:
    """The items of both, A's columns before B's."""
    ids = sorted(a.keys() & b.keys())
    columns = np.array([a[identity][1] + b[identity][1] for identity in ids], dtype=np.float64)
    return Documents(ids, np.array([b[identity][0] for identity in ids]), columns)


def differences(suite: Suite, metric: str, documents: Documents) -> dict[str, float]:
    """id → how much better B is than A on it (below zero: worse), the best first."""
    sign = 1 if suite.metrics[metric].better == "above" else -1
    ours, theirs = (
        [suite.metrics[metric].of(columns) for columns in half] for half in np.split(documents.columns, 2, axis=1)
    )
    found = {name: sign * float(b - a) for name, a, b in zip(documents.ids, ours, theirs, strict=True)}
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def measured(suite: Suite, documents: Documents, config: dict) -> list[dict]:
    """A row per metric: both values, their paired difference, and each item's.

    Args:
        config: `confidence` and `resamples`.
    """
    both, place = Measured(suite, {"": documents}, ["A", "B"], config), ("", "all")
    return [
        {
            "metric": metric,
            "documents": len(documents.ids),
            **{side: both.measure(metric, place, side)["value"] for side in ("A", "B")},
            **{key: found[key] for key in ("value", "interval", "reading", "detectable", "mcnemar")},
            "items": differences(suite, metric, documents),
        }
        for metric in suite.compared
        for found in [both.comparison(metric, place, "B", "A")]
    ]


def compared(a: Path, b: Path) -> tuple[list[dict], list[str]]:
    """(a row per pair of models, dataset and metric; what was not compared, and why).

    Raises:
        UserError: a run has no eval.json or its items are missing or malformed, or nothing can be compared.
    """
    said = [read_evaluation(root) for root in (a, b)]
    tables = [suites(evaluation["inputs"]["experiment"]["evaluation"]) for evaluation in said]
    rows, apart = [], []
    for name in [name for name in tables[0] if name in tables[1]]:
        other, suite = (table[name] for table in tables)
        if suite.figures != other.figures:
            apart.append(f"{name}: other metrics ({', '.join(other.metrics)}; {', '.join(suite.metrics)})")
            continue
        for models in pairs(*said):
            if any(name not in found["scores"][model] for found, model in zip(said, models, strict=True)):
                continue  # people rated other models
            folders = [root / "evaluation" / name / model for root, model in zip((a, b), models, strict=True)]
            items = [read_items(folder / "items.jsonl.zst", suite) for folder in folders]
            facts = [found["scoring"][model][name] for found, model in zip(said, models, strict=True)]
            for dataset in [dataset for dataset in items[0] if dataset in items[1]]:
                documents = together(*(found[dataset] for found in items))
                if facts[0]["data"][dataset] != facts[1]["data"][dataset]:
                    apart.append(f"{name}, {dataset}: its test data is not the same")
                elif not documents.ids:
                    apart.append(f"{name}, {dataset}: no item in common")
                else:
                    same = facts[0].get("settings") == facts[1].get("settings")
                    about = {"suite": name, "models": models, "dataset": dataset, "settings_differ": not same}
                    rows += [about | row for row in measured(suite, documents, said[1])]
    if not rows:
        raise UserError(f"{a} and {b}: nothing to compare; {'; '.join(dict.fromkeys(apart)) or 'no suite in common'}")
    return rows, list(dict.fromkeys(apart))


def title(row: dict) -> str:
    first, second = row["models"]
    model = first if first == second else f"{first} / {second}"
    return f"{model}, {row['metric'].replace('_', ' ')}, {row['dataset']}"


def lines(rows: list[dict], apart: list[str]) -> list[str]:
    """What the terminal shows."""
    head = ("model, metric, dataset", "items", "A", "B", "B - A", "interval", "reading", "gained", "lost", "p")
    cells = []
    for row in rows:
        changes = [sum(value > 0 for value in row["items"].values()), sum(value < 0 for value in row["items"].values())]
        p = number(row["mcnemar"]["p"]) if row["mcnemar"] else ""
        figures = [number(row["A"]), number(row["B"]), number(row["value"], True), interval(row["interval"], True)]
        cells.append((title(row), f"{row['documents']:,}", *figures, row["reading"], *map(str, changes), p))
    found = table([head, *cells])
    for row in rows:
        names = list(row["items"])
        for kind, ids in (
            ("gained", [name for name in names if row["items"][name] > 0][:LISTED]),
            ("lost", [name for name in names[::-1] if row["items"][name] < 0][:LISTED]),
        ):
            if ids:
                found.append(f"{title(row)}: most {kind}: {', '.join(ids)}")
    found += [f"settings differ: {title(row)}" for row in rows if row["settings_differ"]]
    return found + [f"not compared: {why}" for why in apart]


def picture(rows: list[dict]) -> Figure:
    """Each item's difference, the most gained first."""
    size = (WIDTH, 0.3 + 1.5 * len(rows))
    figure, panels = pyplot.subplots(len(rows), squeeze=False, figsize=size, layout="constrained")
    for axes, row in zip(panels[:, 0], rows, strict=True):
        values = np.array(list(row["items"].values()))
        colors = [GREEN if value > 0 else RED for value in values]
        axes.vlines(range(len(values)), 0, values, colors=colors, linewidth=max(0.5, 240 / len(values)))
        axes.axhline(0, color=GREY, linewidth=0.8)
        axes.set_title(f"{title(row)}: {np.sum(values > 0)} gained, {np.sum(values < 0)} lost", fontsize=9)
        axes.set_xticks([])
        axes.set_ylabel("B better by")
    return figure


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--a", type=Path, required=True, help="results root of the one run")
    p.add_argument("--b", type=Path, required=True, help="results root of the other")
    p.add_argument("--out", type=Path, required=True, help="folder for compare.json and compare.svg")
    args = p.parse_args()
    rows, apart = compared(args.a, args.b)
    write_json(args.out / "compare.json", {"a": str(args.a), "b": str(args.b), "rows": rows, "not_compared": apart})
    save(picture, rows, args.out / "compare.svg")
    print("\n".join([*lines(rows, apart), f"picture: {args.out / 'compare.svg'}"]))


if __name__ == "__main__":
    run(main)
