"""The report: results/report.html, one self-contained page with all results and their inputs, and results/scores.csv.

    python -m scripts.report.page --results results
    python -m scripts.report.page --results results --summary     # only print the gates and the verdict

The page contains its pictures and loads nothing. Values from data are escaped.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from scripts.common.cli import parser, run
from scripts.common.files import atomic
from scripts.experiment.layout import Layout
from scripts.judge.outcomes import OUTCOMES
from scripts.report.content import pictures
from scripts.report.content.eval_json import read_evaluation
from scripts.report.content.examples import generated_examples
from scripts.report.content.funnel import read_funnel
from scripts.report.content.pictures import read_metrics
from scripts.report.content.scores_table import scores_csv
from scripts.report.content.wording import planned_and_measured, summary, unplanned
from scripts.report.templates.rendering import fill


def drawn(picture: Callable, data: object) -> Markup:
    """A picture for inlining: its ids start with its name, and its dark ink is the page's text colour."""
    name, text = picture.__name__, pictures.svg(picture, data)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text[text.index("<svg ") :])
    text = text.replace("#1f2328", "currentColor")
    return Markup(text.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1))


def date_of(results: Path, evaluation: dict) -> str:
    """The date of the last stage's files."""
    path = Layout(results).model(list(evaluation["stages"])[-1]) / "environment.json"
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat() if path.exists() else ""


def render(results: Path) -> str:
    """The HTML page of the results root `results`.

    Raises:
        UserError: a file that it shows is missing or malformed.
    """
    evaluation = read_evaluation(results)
    inputs, models = evaluation["inputs"], list(dict.fromkeys(["base", *evaluation["stages"]]))
    logs = {stage: read_metrics(Layout(results).model(stage) / "metrics.jsonl") for stage in evaluation["stages"]}
    return fill(
        "page.html.j2",
        evaluation,
        date_of(results, evaluation),
        models=models,
        outcomes=OUTCOMES,
        plans=planned_and_measured(evaluation["stages"]),
        unplanned=unplanned(evaluation["stages"]),
        generated=generated_examples(results, evaluation),
        funnel=read_funnel(results, list(inputs["sources"])),
        pictures={"loss": drawn(pictures.loss, logs), "scores": drawn(pictures.scores, evaluation)},
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--results", type=Path, required=True, help="the results root")
    arguments.add_argument("--summary", action="store_true", help="only print the gates and the verdict")
    args = arguments.parse_args()
    if args.summary:
        print(summary(read_evaluation(args.results), args.results))
        return
    layout, page = Layout(args.results), render(args.results)
    with atomic(layout.page) as temporary:
        temporary.write_text(page, encoding="utf-8")
    with atomic(layout.scores) as temporary:
        temporary.write_text(scores_csv(read_evaluation(args.results)), encoding="utf-8")


if __name__ == "__main__":
    run(main)
