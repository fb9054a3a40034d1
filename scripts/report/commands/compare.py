"""Compare two runs: what made them differ, and item by item where run B is better or worse than run A.

    stagecraft compare results /elsewhere/results

Compared are models of the same name, and the last stages of both runs whatever their names, on every dataset whose
file was the same in both runs, over the items that both scored. The table is printed; compare.json holds each item's
difference by id.
"""

from pathlib import Path

import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import read_json_or_empty, write_json
from scripts.common.units import clusters
from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.intervals import holm
from scripts.evaluation.results.items import Documents, read_items
from scripts.evaluation.suites import suites_of
from scripts.experiment.layout import Layout
from scripts.experiment.reruns.causes import setting_changes
from scripts.report.content.eval_json import read_evaluation
from scripts.report.content.formatting import interval, number, table

LEVEL = 0.05  # of p
LISTED = 5  # ids of gained and of lost items in the terminal
COUNTS = ("examples", "sources", "languages", "funnel", "dropped_bytes")  # of a data card


def data_lines(a: Path, b: Path) -> list[str]:
    """A line per count on the data cards that differs: examples, sources, languages, why files were left out."""
    cards = [read_json_or_empty(Layout(root).cards / "cards.json") for root in (a, b)]
    lines = []
    for dataset in sorted({*cards[0], *cards[1]}):
        counts = []
        for side in cards:
            counts.append({key: side.get(dataset, {}).get(key, {}) for key in COUNTS})
        lines += [f"data of {dataset}: {change}" for change in setting_changes(*counts)]
    return lines


def made_lines(a: Path, b: Path) -> list[str]:
    """A line per setting, source and package that differs between the runs of two eval.json."""
    inputs = [read_evaluation(root)["inputs"] for root in (a, b)]
    lines = []
    for kind, key in (("setting", "experiment"), ("source", "sources"), ("package", "versions")):
        lines += [f"{kind} {change}" for change in setting_changes(inputs[0][key], inputs[1][key])]
    changed = sorted(rule for rule, code in inputs[0]["code"].items() if inputs[1]["code"].get(rule, code) != code)
    return lines + ([f"code of {', '.join(changed)}"] if changed else [])


def model_pairs(a: dict, b: dict) -> list[tuple[str, str]]:
    """The pairs of models (of A, of B) to compare."""
    common_models = [(model, model) for model in a["scores"] if model in b["scores"]]
    return list(dict.fromkeys([*common_models, (list(a["stages"])[-1], list(b["stages"])[-1])]))


def common_items(a: dict[str, tuple], b: dict[str, tuple], unit: str) -> Documents:
    """The items that both runs scored, A's columns before B's; `unit` as of `clusters`."""
    ids = sorted(a.keys() & b.keys())
    columns = np.array([a[identity][1] + b[identity][1] for identity in ids], dtype=np.float64)
    return Documents(ids, np.array([b[identity][0] for identity in ids]), columns, clusters(ids, unit))


def differences(suite: Suite, metric: str, documents: Documents) -> dict[str, float]:
    """id → how much better B is than A on this item (negative: worse), best first."""
    sign = 1 if suite.metrics[metric].better == "above" else -1
    halves = np.split(documents.columns, 2, axis=1)
    values_a, values_b = (list(map(suite.metrics[metric].compute, half)) for half in halves)
    gains = {name: sign * float(b - a) for name, a, b in zip(documents.ids, values_a, values_b, strict=True)}
    return dict(sorted(gains.items(), key=lambda item: (-item[1], item[0])))


def metric_rows(suite: Suite, documents: Documents, confidence: float) -> list[dict]:
    """A row per metric: both values, their paired difference, and each item's; none of these if it was not measured."""
    both = SuiteComparison(suite, {"": documents}, ["A", "B"], confidence)
    place = "", "all"
    return [
        {
            "metric": metric,
            "documents": len(documents.ids),
            **{side: both.measure(metric, place, side)["value"] for side in ("A", "B")},
            **{key: comparison[key] for key in ("value", "interval", "direction", "detectable", "mcnemar", "p")},
            # where the tests or the sandbox failed, an item's 0 is no failure of the model's
            "items": {} if comparison["value"] is None else differences(suite, metric, documents),
        }
        for metric in suite.compared
        for comparison in [both.comparison(metric, place, "B", "A")]
    ]


def compare_runs(a: Path, b: Path) -> tuple[list[dict], list[str]]:
    """(a row per pair of models, dataset and metric; what is not compared, with the reason)."""
    evaluations = [read_evaluation(root) for root in (a, b)]
    configured = [evaluation["inputs"]["experiment"]["evaluation"] for evaluation in evaluations]
    tables = [suites_of(settings) for settings in configured]
    rows, excluded = [], []
    for name in [name for name in tables[0] if name in tables[1]]:
        other, suite = (table[name] for table in tables)
        if suite.figures != other.figures:
            excluded.append(f"{name}: other metrics ({', '.join(other.metrics)}; {', '.join(suite.metrics)})")
            continue
        for models in model_pairs(*evaluations):
            sides = list(zip(evaluations, models, strict=True))
            if any(name not in evaluation["scores"][model] for evaluation, model in sides):
                continue  # suite human_ratings: people rated other models
            folders = [Layout(root).suite(name, model) for root, model in zip((a, b), models, strict=True)]
            items = [read_items(folder / "items.jsonl.zst", suite) for folder in folders]
            facts = [evaluation["scoring"][model][name] for evaluation, model in sides]
            for dataset in [dataset for dataset in items[0] if dataset in items[1]]:
                documents = common_items(*(by_dataset[dataset] for by_dataset in items), evaluations[1]["unit"])
                if facts[0]["data"][dataset] != facts[1]["data"][dataset]:
                    excluded.append(f"{name}, {dataset}: its test data differs")
                elif not documents.ids:
                    excluded.append(f"{name}, {dataset}: no item in common")
                else:
                    same_settings = facts[0].get("settings") == facts[1].get("settings")
                    about = {"suite": name, "models": models, "dataset": dataset, "settings_differ": not same_settings}
                    rows += [about | row for row in metric_rows(suite, documents, evaluations[1]["confidence"])]
    if not rows:
        raise UserError(
            f"{a} and {b}: nothing to compare; {'; '.join(dict.fromkeys(excluded)) or 'no suite in common'}"
        )
    measured = [row for row in rows if row["p"] is not None]
    corrected = iter(holm([row["p"] for row in measured]))
    for row in rows:
        row["holm"] = None
        if row["p"] is not None:
            row["holm"] = next(corrected)
    return rows, list(dict.fromkeys(excluded))


def title(row: dict) -> str:
    """Model, metric and dataset of a row."""
    first, second = row["models"]
    model = first if first == second else f"{first} / {second}"
    return f"{model}, {row['metric'].replace('_', ' ')}, {row['dataset']}"


def terminal_lines(rows: list[dict], excluded: list[str]) -> list[str]:
    """The table and its notes, as lines for the terminal."""
    head = (
        "model, metric, dataset",
        "items",
        "A",
        "B",
        "B - A",
        "interval",
        "direction",
        "gained",
        "lost",
        "p",
        "Holm",
    )
    cells = []
    for row in rows:
        changes = [sum(value > 0 for value in row["items"].values()), sum(value < 0 for value in row["items"].values())]
        p = ("", "")
        if row["p"] is not None:
            p = (number(row["p"]), number(row["holm"]))
        if row["value"] is None:
            measured = ["not measured" if row[side] is None else number(row[side]) for side in ("A", "B")]
            cells.append((title(row), f"{row['documents']:,}", *measured, "", "", row["direction"], "", "", "", ""))
            continue
        figures = [number(row["A"]), number(row["B"]), number(row["value"], True), interval(row["interval"], True)]
        cells.append((title(row), f"{row['documents']:,}", *figures, row["direction"], *map(str, changes), *p))
    lines = [*table([head, *cells]), family_line(rows)]
    for row in rows:
        names = list(row["items"])
        for kind, ids in (
            ("gained", [name for name in names if row["items"][name] > 0][:LISTED]),
            ("lost", [name for name in names[::-1] if row["items"][name] < 0][:LISTED]),
        ):
            if ids:
                lines.append(f"{title(row)}: most {kind}: {', '.join(ids)}")
    lines += [
        f"not measured: {title(row)}: the tests or the sandbox failed on some items"
        for row in rows
        if row["value"] is None
    ]
    lines += [f"settings differ: {title(row)}" for row in rows if row["settings_differ"]]
    return lines + [f"not compared: {reason}" for reason in excluded]


def family_line(rows: list[dict]) -> str:
    """How many comparisons there are, and what is left of them after Holm's correction."""
    tested = [row for row in rows if row["p"] is not None]
    uncorrected, corrected = sum(row["p"] < LEVEL for row in tested), sum(row["holm"] < LEVEL for row in tested)
    return (
        f"{len(tested)} comparisons: {uncorrected} with p below {LEVEL}, {corrected} of them also after"
        " Holm's correction for their number; the others are exploratory. Intervals and p speak of other items, not of"
        " other seeds."
    )


def compare(a: Path, b: Path, out: Path) -> None:
    """Print the comparison of two results roots, and write it to `out`."""
    for line in [*made_lines(a, b), *data_lines(a, b)]:
        print(line)
    rows, excluded = compare_runs(a, b)
    write_json(out / "compare.json", {"a": str(a), "b": str(b), "rows": rows, "not_compared": excluded})
    print("\n".join([*terminal_lines(rows, excluded), f"all items: {out / 'compare.json'}"]))
