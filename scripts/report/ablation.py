"""The effect of each arm of `ablate` on each metric: helped, hurt, or cannot tell, with the number of missing seeds.

    python -m scripts.report.ablation --results results --out results/report/ablation \\
        --settings '{"models": {"reference": ["sft", "sft.s2"], "slow": ["sft.slow.s1", "sft.slow.s2"]},
                     "datasets": {"perplexity": ["code"]}, "k": [], "confidence": 0.95, "unit": "file"}'

An arm is compared with the experiment itself, seed by seed and document by document
(scripts/evaluation/results/seeds_and_documents.py). p is corrected for all rows of the table (Holm): if no arm has any
effect, at most 5 of 100 tables contain a verdict of helped or hurt. Writes ablation.json and ablation.svg.
"""

import logging
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from matplotlib import pyplot
from matplotlib.figure import Figure

from scripts.common.cli import parser, run
from scripts.common.files import write_json
from scripts.evaluation.metrics.registry import suites
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.intervals import fewest_clusters
from scripts.evaluation.results.items import read_scored
from scripts.evaluation.results.seeds_and_documents import (
    MOST_SEEDS,
    compare_seeds,
    documents_limit,
    seeds_needed,
)
from scripts.evaluation.results.significance import holm
from scripts.experiment.arms import REFERENCE
from scripts.experiment.layout import Layout
from scripts.experiment.settings.ablate import ArmScores
from scripts.report.content.arms_table import lines
from scripts.report.content.drawing import GREEN, GREY, RED, WIDTH, save

COLORS = {"helped": GREEN, "hurt": RED}


@dataclass
class Row:
    """An arm against the experiment itself, in one metric of one dataset."""

    arm: str
    suite: str
    dataset: str
    metric: str
    better: str  # `below` or `above`: the side of zero on which a difference is an improvement
    documents: int
    effective: float  # for how many equal documents they count
    seeds: int
    reference: float  # means over seeds
    value: float
    difference: float
    interval: list[float] | None = None
    p: float | None = None
    holm: float | None = None
    verdict: str = ""
    more_seeds: int | None = None


def compare_arms(
    values: dict[str, np.ndarray], effective: float, models: dict[str, list[str]], confidence: float, about: dict
) -> list[tuple[Row, np.ndarray]]:
    """A row per arm, and its differences [seeds, clusters]; p is not corrected yet.

    Args:
        values: model → float64 [clusters], values whose mean is the metric.
        effective: for how many equal clusters they count.
        about: the fields suite, dataset, metric, better and documents of the rows.
    """
    table = {arm: np.stack([values[model] for model in names]) for arm, names in models.items()}
    reference, rows = table.pop(REFERENCE), []
    for arm, arm_values in table.items():
        gap = arm_values - reference
        row = Row(
            arm,
            **about,
            effective=round(effective, 1),
            seeds=len(gap),
            reference=float(reference.mean()),
            value=float(arm_values.mean()),
            difference=float(gap.mean()),
        )
        if (gap != 0).any(axis=0).sum() >= fewest_clusters(confidence):
            compared = compare_seeds(gap, effective, confidence)
            row.interval, row.p = compared.interval, compared.p
        rows.append((row, gap))
    return rows


def give_verdicts(compared: list[tuple[Row, np.ndarray]], confidence: float) -> list[Row]:
    """The rows with Holm-corrected p and verdicts."""
    alpha, family = 1 - confidence, [row for row, _ in compared if row.p is not None]
    for row, corrected in zip(family, holm([row.p for row in family]), strict=True):
        row.holm = corrected
    for row, gap in compared:
        if row.p is None:
            differ = int((gap != 0).any(axis=0).sum())
            row.verdict = (
                f"cannot tell: {differ} documents differ, {fewest_clusters(confidence)} are needed"
                if differ
                else "no difference on any document"
            )
        elif row.holm < alpha:
            row.verdict = "helped" if (row.difference < 0) == (row.better == "below") else "hurt"
        else:
            each = alpha / len(family)
            needed = seeds_needed(gap, row.effective, each)
            row.more_seeds = needed and needed - row.seeds
            row.verdict = f"cannot tell: {missing_data(row.more_seeds, documents_limit(gap, row.effective, each))}"
    return [row for row, _ in compared]


def missing_data(more_seeds: int | None, few_documents: bool) -> str:
    """How many seeds or documents are missing to show a difference of the observed size."""
    if more_seeds is not None:
        return f"needs about {more_seeds} more seed{'s' if more_seeds > 1 else ''}"
    return "needs more documents" if few_documents else f"needs more than {MOST_SEEDS} seeds"


def ablation(results: Path, settings: ArmScores) -> list[Row]:
    """A row per suite, dataset, metric and arm.

    Raises:
        UserError: scores are missing, malformed, or not of the same examples as the experiment's own.
    """
    layout, compared = Layout(results), []
    models = list(dict.fromkeys(model for names in settings.models.values() for model in names))
    for name, suite in suites(settings.datasets, settings.k).items():
        scored = read_scored(layout.suite(name, ""), suite, models, settings.datasets[name], settings.unit)
        comparison = SuiteComparison(suite, scored, models, settings.confidence)
        metrics = [metric for metric in suite.metrics if metric in (settings.metrics or suite.compared)]
        for dataset, documents in scored.items():
            place, about = (dataset, "all"), {"suite": name, "dataset": dataset, "documents": len(documents.ids)}
            for metric in metrics:
                values = {model: comparison.in_clusters(metric, place, model) for model in models}
                effective = comparison.effective(metric, place, models[0])
                of_metric = about | {"metric": metric, "better": suite.metrics[metric].better}
                compared += compare_arms(values, effective, settings.models, settings.confidence, of_metric)
    return give_verdicts(compared, settings.confidence)


def picture(rows: list[Row]) -> Figure:
    """A panel per metric and dataset: each arm's difference from the experiment itself, with its interval."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault((row.metric, row.dataset), []).append(row)
    size = (WIDTH, sum(0.75 + 0.3 * len(group) for group in groups.values()))
    figure, panels = pyplot.subplots(len(groups), squeeze=False, figsize=size, layout="constrained")
    for axes, ((metric, dataset), group) in zip(panels[:, 0], groups.items(), strict=True):
        axes.axvline(0, color=GREY, linewidth=1)
        for place, row in enumerate(group):
            color = COLORS.get(row.verdict, GREY)
            axes.plot(row.interval or [row.difference] * 2, [place, place], color=color, linewidth=5, alpha=0.4)
            axes.plot(row.difference, place, "o", color=color, markersize=6)
        axes.set_yticks(range(len(group)), [row.arm for row in group])
        axes.set_ylim(len(group) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.set_title(f"{metric.replace('_', ' ')}, {dataset}: difference ({group[0].better} zero is better)")
    return figure


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--results", type=Path, required=True, help="the results root")
    arguments.add_argument("--settings", type=ArmScores.from_json, required=True, help="what is compared, as JSON")
    arguments.add_argument("--out", type=Path, required=True, help="folder for ablation.json and ablation.svg")
    args = arguments.parse_args()
    rows = ablation(args.results, args.settings)
    save(picture, rows, args.out / "ablation.svg")
    write_json(args.out / "ablation.json", {"confidence": args.settings.confidence, "rows": [*map(asdict, rows)]})
    logging.info("\n".join(["ablation", *lines([asdict(row) for row in rows], args.settings.confidence)]))


if __name__ == "__main__":
    run(main)
