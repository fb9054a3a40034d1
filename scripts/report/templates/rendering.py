"""The report's templates, filled with what all of them show of an eval.json.

    fill("report.md.j2", evaluation)
    fill("page.html.j2", evaluation, models=["base", "sft"], ...)

What goes into HTML is escaped by itself; Markdown's templates say where, by the filter `text`.
"""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scripts.report.content import text
from scripts.report.content.report_data import read_compared, read_contaminated, read_metric_names, read_scores

# what would end a cell of Markdown, or be read as its markup
ESCAPES = {sign: f"\\{sign}" for sign in "\\|`*_[]#~$!"} | {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "\n": " ",
    "\r": " ",
}


def escape(value: object) -> str:
    """A text that Markdown shows as it stands, in one line."""
    return str(value).translate(str.maketrans(ESCAPES))


def fill(name: str, evaluation: dict, **more) -> str:
    """The template of that name, filled; `more` is what it alone shows."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=lambda template: template.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "text": escape,
        "number": text.number,
        "interval": text.interval,
        "value": text.value,
        "ends": text.ends,
        "metric": text.metric,
        "words": lambda name: name.replace("_", " "),
        "bound": text.bound,
        "contamination": text.contamination,
    }
    return environment.get_template(name).render(
        evaluation=evaluation,
        headline=text.HEADLINES[evaluation["verdict"]],
        explanation=text.explanation(evaluation["gates"]),
        scores=read_scores(evaluation),
        metrics_of=read_metric_names(evaluation),
        suites={suite: text.SUITES[suite] for suite in read_compared(evaluation)},
        contaminated=read_contaminated(evaluation),
        **more,
    )
