"""The report's pictures as SVG: funnel, loss, scores and gates.

    python -m scripts.report.plots --results results --out results/report/plots

They load nothing, and their bytes depend only on the data.
"""

import math
from pathlib import Path

from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from scripts.common.cli import parser, run
from scripts.experiment.layout import Layout
from scripts.experiment.suites import SUITES
from scripts.report.content.drawing import BLUE, GREEN, GREY, INK, ORANGE, RED, WIDTH, save
from scripts.report.content.eval_json import read_evaluation
from scripts.report.content.formatting import number
from scripts.report.content.funnel import FILES, FunnelCounts, read_funnel
from scripts.report.content.scores_table import compared_scores
from scripts.report.content.training_log import read_metrics

# colours of models, in the order of eval.json, and of gates by outcome
MODELS = [GREY, BLUE, ORANGE, GREEN, "#8e6bbf", "#1a9ba1"]
OUTCOMES = {"met": GREEN, "met, not secured": ORANGE, "not met, not secured": ORANGE, "not met": RED}
OUTCOMES |= {"not measured": GREY}


def is_share(metric: str) -> bool:
    """Whether a metric is from 0 to 1, so that its axis shows the whole range."""
    return metric.startswith("pass@") or any(facts.share and metric in facts.metrics for facts in SUITES.values())


def bars(axes, labels: list[str], counts: list[int], colors: list[str], total: int) -> None:
    """Horizontal bars, the first on top, each with its count and its share of `total`."""
    axes.barh(range(len(labels)), counts, color=colors, height=0.7)
    for place, count in enumerate(counts):
        axes.annotate(
            f"{count:,} ({count / total:.1%})", (count, place), xytext=(4, 0), textcoords="offset points", va="center"
        )
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.margins(x=0.35)
    hide_x(axes)


def hide_x(axes) -> None:
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="y", length=0)


def funnel(counts: FunnelCounts | None) -> Figure:
    """Files kept and dropped, by reason and by language; a sentence if there were no sources."""
    if counts is None:
        figure, axes = pyplot.subplots(figsize=(WIDTH, 1.0), layout="constrained")
        axes.set_axis_off()
        axes.text(0, 0.5, "All datasets are the user's own: no file was filtered.", va="center")
        return figure
    labels = ["kept", *counts.dropped.index]
    languages = counts.languages[FILES]
    rows = [len(labels), len(languages)]
    figure, (reasons, by_language) = pyplot.subplots(
        2, figsize=(WIDTH, 1.5 + 0.24 * sum(rows)), height_ratios=[max(row, 1) for row in rows], layout="constrained"
    )
    colors = [GREEN, *(ORANGE if reason == "duplicate" else GREY for reason in labels[1:])]
    bars(reasons, labels, [counts.kept, *counts.dropped], colors, max(counts.seen, 1))
    reasons.set_title(f"What became of {counts.seen:,} files")

    ends = languages.cumsum(axis=1)
    for key, label, color in zip(FILES, ("kept", "duplicate", "filtered out"), (GREEN, ORANGE, GREY), strict=True):
        left = ends[key] - languages[key]
        by_language.barh(range(len(languages)), languages[key], left=left, color=color, height=0.7, label=label)
    for place, (kept, total) in enumerate(zip(languages.kept, languages.sum(axis=1), strict=True)):
        text = f"{kept:,} of {total:,}"
        by_language.annotate(text, (total, place), xytext=(4, 0), textcoords="offset points", va="center")
    by_language.set_yticks(range(len(languages)), languages.index)
    by_language.invert_yaxis()
    by_language.margins(x=0.35)
    hide_x(by_language)
    by_language.set_title("Source files by language")
    if len(languages):
        by_language.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3)
    return figure


def loss(stages: dict[str, list[dict]]) -> Figure:
    """Training and validation loss of each stage over its steps."""
    figure, panels = pyplot.subplots(
        len(stages), squeeze=False, figsize=(WIDTH, 0.3 + 2.1 * len(stages)), layout="constrained"
    )
    for axes, (stage, steps) in zip(panels[:, 0], stages.items(), strict=True):
        for key, label, style in (
            ("loss", "training", {"color": BLUE, "linewidth": 1.4}),
            ("eval_loss", "validation", {"color": ORANGE, "marker": "o", "markersize": 4, "linewidth": 1}),
        ):
            # an overflowed loss is logged as null and leaves a gap
            points = [
                (step["step"], step[key] if step[key] is not None else float("nan")) for step in steps if key in step
            ]
            if points:
                axes.plot(*zip(*points, strict=True), label=label, **style)
        axes.set_title(stage)
        axes.set_ylabel("loss (nats per token)")
        axes.grid(axis="y", color=GREY, alpha=0.25)
        axes.legend(loc="upper right") if axes.lines else hide_x(axes)
    panels[-1, 0].set_xlabel("optimizer step")
    return figure


def scores(evaluation: dict) -> Figure:
    """The metrics that models are compared by: a panel per suite, metric and dataset, with each model's interval."""
    compared = compared_scores(evaluation).query("language == 'all'")
    colors = {model: MODELS[place % len(MODELS)] for place, model in enumerate(evaluation["scores"])}
    groups = [
        (metric, dataset, rows)
        for _, suite in compared.groupby("suite", sort=False)
        for metric, datasets in suite.groupby("metric", sort=False)
        for dataset, rows in datasets.groupby("dataset", sort=False)
    ]
    figure, panels = pyplot.subplots(
        len(groups), squeeze=False, figsize=(WIDTH, len(groups) * (0.75 + 0.3 * len(colors))), layout="constrained"
    )
    for axes, (metric, dataset, rows) in zip(panels[:, 0], groups, strict=True):
        rows = rows.fillna({"interval_low": rows.value, "interval_high": rows.value})
        for place, score in enumerate(rows.itertuples()):
            low, high, color = score.interval_low, score.interval_high, colors[score.model]
            axes.plot([low, high], [place, place], color=color, linewidth=5, alpha=0.4)
            axes.plot(score.value, place, "o", color=color, markersize=6)
            axes.annotate(number(score.value), (high, place), xytext=(8, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(rows)), rows.model)
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.grid(axis="x", color=GREY, alpha=0.25)
        axes.tick_params(axis="y", length=0)
        axes.set_title(f"{metric.replace('_', ' ')}, {dataset}")
    # the panels of a metric share one scale; set when all panels are drawn
    for axes, (metric, _, _) in zip(panels[:, 0], groups, strict=True):
        same_metric = [panel for panel, (other, _, _) in zip(panels[:, 0], groups, strict=True) if other == metric]
        if is_share(metric):
            axes.set_xlim(0, 1.12)  # the whole range, and room for a figure behind 1
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1])
            continue
        ends = [panel.dataLim.x1 for panel in same_metric if math.isfinite(panel.dataLim.x1)]
        axes.set_xlim(0, 1.18 * max(ends, default=0) or 1)
    return figure


def gates(evaluation: dict) -> Figure:
    """A panel for each gate: value, interval, and in grey the side where it would not be met."""
    judged = evaluation["gates"]
    rows = max(len(judged), 1)
    figure, panels = pyplot.subplots(rows, squeeze=False, figsize=(WIDTH, 0.2 + 0.95 * rows), layout="constrained")
    for axes, gate in zip(panels[:, 0], judged, strict=False):
        color, value, limit = OUTCOMES[gate["outcome"]], gate["value"], gate["bound"]
        low, high = gate["interval"] or [value, value]
        if value is not None:
            axes.plot([low, high], [0, 0], color=color, linewidth=5, alpha=0.4)
            axes.plot(value, 0, "o", color=color, markersize=7)
        axes.axvline(limit, color=INK, linewidth=1.2)
        axes.margins(x=0.12)
        axes.autoscale_view()
        # a share from 0 to 1, so that a small gap does not look large
        left, right = (0, 1) if is_share(gate["metric"]) and not gate["against"] else axes.get_xlim()
        axes.axvspan(
            *((limit, right) if gate["side"] == "below" else (left, limit)), color=GREY, alpha=0.18, linewidth=0
        )
        axes.set_xlim(left, right)
        axes.xaxis.set_major_locator(MaxNLocator(4))  # more labels as -0.0016 would overlap
        axes.set_ylim(-1, 1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_title(f"{gate['name']}: {gate['outcome']}", fontsize=9)
    if not judged:
        panels[0, 0].set_axis_off()
        panels[0, 0].text(0, 0.5, "The experiment names no gates.", va="center")
    return figure


def draw(results: Path, out: Path) -> None:
    """Draw all pictures of the results root `results` into the folder `out`.

    Raises:
        UserError: a file that they show is missing or malformed.
    """
    evaluation = read_evaluation(results)
    metrics = {name: read_metrics(Layout(results).model(name) / "metrics.jsonl") for name in evaluation["stages"]}
    counts = read_funnel(results, list(evaluation["inputs"]["sources"]))
    for picture, data in ((funnel, counts), (loss, metrics), (scores, evaluation), (gates, evaluation)):
        save(picture, data, out / f"{picture.__name__}.svg")


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--results", type=Path, required=True, help="the results root")
    arguments.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    args = arguments.parse_args()
    draw(args.results, args.out)


if __name__ == "__main__":
    run(main)
