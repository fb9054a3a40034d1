"""The report as Markdown, for a merge request or a wiki: verdict, gates, scores, comparisons, and what made them.

`python -m scripts.report.page --results results` writes it as report.md beside the page, which shows more.
"""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scripts.report import text
from scripts.report.data import read_compared, read_contaminated, read_metric_names, read_scores

# what would end a cell, or be read as markup
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


def render(evaluation: dict) -> str:
    """The Markdown report of an eval.json."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
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
    return environment.get_template("report.md.j2").render(
        evaluation=evaluation,
        headline=text.HEADLINES[evaluation["verdict"]],
        explanation=text.explanation(evaluation["gates"]),
        scores=read_scores(evaluation),
        contaminated=read_contaminated(evaluation),
        metrics_of=read_metric_names(evaluation),
        suites={suite: text.SUITES[suite] for suite in read_compared(evaluation)},
    )
