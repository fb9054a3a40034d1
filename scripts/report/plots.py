"""The report's pictures: funnel, loss, scores and gates, as SVG whose bytes depend on the data alone.

    python -m scripts.report.plots --results results --out results/report/plots

Text stays text, in whatever font the reader has; nothing is loaded from anywhere.
"""

import warnings
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.figure import Figure

from scripts.common.cli import parser, run
from scripts.common.files import atomic
from scripts.experiment.layout import Layout
from scripts.report.content.report_data import read_compared, read_evaluation, read_funnel, read_metrics, read_scores
from scripts.report.content.text import number

# The page turns INK into the colour of its own text; all others can be told apart on white and on black.
INK = "#1f2328"
GREY, BLUE, ORANGE, GREEN, RED = "#8c959f", "#3a86cf", "#d9822b", "#2f9e64", "#d1495b"
MODELS = [GREY, BLUE, ORANGE, GREEN, "#8e6bbf", "#1a9ba1"]
OUTCOMES = {"met": GREEN, "met, not secured": ORANGE, "not met, not secured": ORANGE, "not met": RED}
OUTCOMES |= {"not measured": GREY}
WIDTH = 5.2  # inches: one column on a phone, two on a desk

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


def funnel(counts: dict) -> Figure:
    """What became of the files, by reason and by language."""
    if not counts["sources"]:
        figure, axes = pyplot.subplots(figsize=(WIDTH, 1.0), layout="constrained")
        axes.set_axis_off()
        axes.text(0, 0.5, "All datasets are the user's own: no file was filtered.", va="center")
        return figure
    labels = ["kept", *counts["dropped"]]
    languages = counts["languages"]
    rows = [len(labels), len(languages)]
    figure, (reasons, by_language) = pyplot.subplots(
        2, figsize=(WIDTH, 1.5 + 0.24 * sum(rows)), height_ratios=[max(row, 1) for row in rows], layout="constrained"
    )
    colors = [GREEN, *(ORANGE if reason == "duplicate" else GREY for reason in counts["dropped"])]
    bars(reasons, labels, [counts["kept"], *counts["dropped"].values()], colors, max(counts["seen"], 1))
    reasons.set_title(f"What became of {counts['seen']:,} files")

    left = [0] * len(languages)
    for key, label, color in (
        ("kept", "kept", GREEN),
        ("duplicate", "duplicate", ORANGE),
        ("filtered", "filtered out", GREY),
    ):
        width = [counts[key] for counts in languages.values()]
        by_language.barh(range(len(languages)), width, left=left, color=color, height=0.7, label=label)
        left = [start + more for start, more in zip(left, width, strict=True)]
    for place, (total, count) in enumerate(zip(left, languages.values(), strict=True)):
        text = f"{count['kept']:,} of {total:,}"
        by_language.annotate(text, (total, place), xytext=(4, 0), textcoords="offset points", va="center")
    by_language.set_yticks(range(len(languages)), list(languages))
    by_language.invert_yaxis()
    by_language.margins(x=0.35)
    hide_x(by_language)
    by_language.set_title("Source files by language")
    if languages:
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
            # a loss that overflowed was logged as null and leaves a gap
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
    """What models are compared by: each metric of each suite on each dataset, every model with its interval."""
    found, compared = read_scores(evaluation), read_compared(evaluation)
    colors = {model: MODELS[place % len(MODELS)] for place, model in enumerate(evaluation["scores"])}
    places = [
        (suite, metric, dataset)
        for suite, metrics in compared.items()
        for metric in metrics
        for dataset in next(iter(found[suite].values()))
    ]
    figure, panels = pyplot.subplots(
        len(places), squeeze=False, figsize=(WIDTH, len(places) * (0.75 + 0.3 * len(colors))), layout="constrained"
    )
    for axes, (suite, metric, dataset) in zip(panels[:, 0], places, strict=True):
        for place, (model, scored) in enumerate(found[suite].items()):
            score, color = scored[dataset]["all"][metric], colors[model]
            low, high = score["interval"] or [score["value"]] * 2
            axes.plot([low, high], [place, place], color=color, linewidth=5, alpha=0.4)
            axes.plot(score["value"], place, "o", color=color, markersize=6)
            axes.annotate(number(score["value"]), (high, place), xytext=(8, 0), textcoords="offset points", va="center")
        axes.set_yticks(range(len(found[suite])), found[suite])
        axes.set_ylim(len(found[suite]) - 0.5, -0.5)
        axes.grid(axis="x", color=GREY, alpha=0.25)
        axes.tick_params(axis="y", length=0)
        axes.set_title(f"{metric.replace('_', ' ')}, {dataset}")
    # datasets share the scale of a metric; set once all panels are drawn
    for axes, (_, metric, _) in zip(panels[:, 0], places, strict=True):
        alike = [panel for panel, (_, other, _) in zip(panels[:, 0], places, strict=True) if other == metric]
        axes.set_xlim(0, 1.18 * max(panel.dataLim.x1 for panel in alike) or 1)
    return figure


def gates(evaluation: dict) -> Figure:
    """Each gate on a line of its own: value, interval, and in grey the side where it would not be met."""
    found = evaluation["gates"]
    rows = max(len(found), 1)
    figure, panels = pyplot.subplots(rows, squeeze=False, figsize=(WIDTH, 0.2 + 0.95 * rows), layout="constrained")
    for axes, gate in zip(panels[:, 0], found, strict=False):
        color, value, limit = OUTCOMES[gate["outcome"]], gate["value"], gate["bound"]
        low, high = gate["interval"] or [value, value]
        if value is not None:
            axes.plot([low, high], [0, 0], color=color, linewidth=5, alpha=0.4)
            axes.plot(value, 0, "o", color=color, markersize=7)
        axes.axvline(limit, color=INK, linewidth=1.2)
        axes.margins(x=0.12)
        axes.autoscale_view()
        left, right = axes.get_xlim()
        axes.axvspan(
            *((limit, right) if gate["side"] == "below" else (left, limit)), color=GREY, alpha=0.18, linewidth=0
        )
        axes.set_xlim(left, right)
        axes.set_ylim(-1, 1)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.set_title(f"{gate['name']}: {gate['outcome']}", fontsize=9)
    if not found:
        panels[0, 0].set_axis_off()
        panels[0, 0].text(0, 0.5, "The experiment names no gates.", va="center")
    return figure


def save(picture: Callable[..., Figure], data: object, path: Path) -> None:
    """Draw `picture(data)` in the report's style into an SVG."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # the reader's font draws the text, so what the one used for measuring lacks does not matter
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = picture(data)
        with atomic(path) as temporary:
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            figure.savefig(temporary, format="svg", transparent=True, metadata=nothing)
        pyplot.close(figure)


def draw(results: Path, out: Path) -> None:
    """Draw all pictures of the results root `results` into the folder `out`.

    Raises:
        UserError: something they show is missing or malformed.
    """
    evaluation = read_evaluation(results)
    metrics = {name: read_metrics(Layout(results).model(name) / "metrics.jsonl") for name in evaluation["stages"]}
    counts = read_funnel(results, list(evaluation["inputs"]["sources"]))
    for picture, data in ((funnel, counts), (loss, metrics), (scores, evaluation), (gates, evaluation)):
        save(picture, data, out / f"{picture.__name__}.svg")


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--results", type=Path, required=True, help="the results root")
    p.add_argument("--out", type=Path, required=True, help="folder for the pictures")
    args = p.parse_args()
    draw(args.results, args.out)


if __name__ == "__main__":
    run(main)
