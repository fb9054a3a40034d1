"""The report's pictures: the loss of each stage, and the scores of all models with their intervals.

They are SVG whose bytes depend only on the data. Text is stored as text and shown in the reader's font; the pictures
load nothing.
"""

import io
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib

from scripts.common.errors import UserError

matplotlib.use("svg")
from matplotlib import pyplot, ticker
from matplotlib.figure import Figure

from scripts.common.discovery import constants_in
from scripts.report.content.formatting import number
from scripts.report.content.scores_table import compared_scores

# The page replaces INK by its text colour; the other colours are distinct on white and on black.
INK = "#1f2328"
GREY, BLUE, ORANGE, GREEN = "#8c959f", "#3a86cf", "#d9822b", "#2f9e64"
WIDTH = 5.2  # inches

STYLE = {
    "svg.hashsalt": "stagecraft",  # otherwise ids are random
    "svg.fonttype": "none",
    "text.parse_math": False,  # a `$` in a name is a dollar
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
    **{f"axes.{part}": INK for part in ("labelcolor", "titlecolor")},
    "axes.edgecolor": GREY,
}
MODELS = [GREY, BLUE, ORANGE, GREEN, "#8e6bbf", "#1a9ba1"]  # colours of models, in the order of eval.json


def svg(picture: Callable[..., Figure], data: object) -> str:
    """Draw `picture(data)` in the report's style; the SVG as text."""
    written = io.StringIO()
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # the reader's font draws the text; the font that measures it here may lack glyphs
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = picture(data)
        no_metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", transparent=True, metadata=no_metadata)
        pyplot.close(figure)
    return written.getvalue()


def is_share(metric: str) -> bool:
    """Whether a metric is from 0 to 1, so that its axis shows the whole range."""
    if metric.startswith("pass@"):
        return True
    suites = [suite for suite in constants_in("scripts.evaluation.suites", "SUITE").values() if not callable(suite)]
    return any(metric in suite.metrics and suite.metrics[metric].highest == 1 for suite in suites)


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
        if axes.lines:
            axes.legend(loc="upper right")
    panels[-1, 0].set_xlabel("optimizer step")
    return figure


EFFECTS = {"helps": GREEN, "harms": "#c2384a", "none": GREY, "cannot tell": ORANGE}


def differences(question: dict) -> Figure:
    """The paired differences that the answer rests on, with their intervals beside zero: on bits per byte, and on lines
    as they stand where lines were counted."""
    panels = [("bits_per_byte", "bits per byte: less is better", 1), ("lines", "lines as they stand (%)", 100)]
    rows = {}
    for metric, _, _ in panels:
        rows[metric] = [row for row in question["rows"] if row["metric"] == metric and row["value"] is not None]
    panels = [panel for panel in panels if rows[panel[0]]]
    heights = [len(rows[metric]) + 1.5 for metric, _, _ in panels]
    figure, drawn = pyplot.subplots(
        len(panels),
        squeeze=False,
        figsize=(WIDTH, 0.27 * sum(heights)),
        height_ratios=heights,
        layout="constrained",
    )
    for axes, (metric, title, factor) in zip(drawn[:, 0], panels, strict=True):
        for place, row in enumerate(rows[metric]):
            low, high = (factor * end for end in row["interval"] or (row["value"], row["value"]))
            color = EFFECTS[row["effect"]]
            axes.plot([low, high], [place, place], color=color, linewidth=5, alpha=0.4)
            axes.plot(factor * row["value"], place, "o", color=color, markersize=6)
        names = [
            f"fine-tuning, on {row['dataset']}" if row["name"] == "elsewhere" else row["name"] for row in rows[metric]
        ]
        axes.axvline(0, color=INK, linewidth=1)
        axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(axis="x", color=GREY, alpha=0.25)
        axes.tick_params(axis="y", length=0)
        axes.set_title(title)
    return figure


def curve(question: dict) -> Figure:
    """Bits per byte of own code over the steps of the stage, with intervals."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, 2.0), layout="constrained")
    steps, values = [row["steps"] for row in question["curve"]], [row["value"] for row in question["curve"]]
    axes.plot(steps, values, "o-", color=BLUE, markersize=5, linewidth=1.4)
    axes.set_xlabel(f"steps of {question['model']}")
    axes.set_title(f"bits per byte of {question['dataset']}, the same lines after fewer steps")
    axes.grid(axis="y", color=GREY, alpha=0.25)
    return figure


def scores(evaluation: dict) -> Figure:
    """The metrics that models are compared by: a panel per suite, metric and dataset, with each model's interval.

    Left out are those that are zero for all models, and those of too few documents for an interval, unless all are.
    """
    compared = compared_scores(evaluation).query("language == 'all'")
    colors = {model: MODELS[place % len(MODELS)] for place, model in enumerate(evaluation["scores"])}
    everything, telling = [], []
    for (_, metric, dataset), rows in compared.groupby(["suite", "metric", "dataset"], sort=False):
        everything.append((metric, dataset, rows))
        if rows.value.any() and rows.interval_low.notna().any():
            telling.append((metric, dataset, rows))
    groups = telling or everything
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


def read_metrics(path: Path) -> list[dict]:
    """The logged steps of a stage, from its metrics.jsonl. Raises UserError: the file is missing, or a line is not a
    JSON object with a `step`."""
    steps = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in lines:
            step = json.loads(line)
            step["step"] + 0  # raises if it is no number
            steps.append(step)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: line {len(steps) + 1}: no logged step ({error})") from error
    return steps
