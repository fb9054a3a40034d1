"""Fill the report's templates from an eval.json.

    fill("page.html.j2", evaluation, models=["base", "sft"], ...)

Values are escaped automatically.
"""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from scripts.evaluation.suites import abouts
from scripts.report.content import formatting, wording
from scripts.report.content.eval_json import contamination_rows
from scripts.report.content.scores_table import scores_table

# characters that would end a Markdown cell or be read as markup
ESCAPES = {sign: f"\\{sign}" for sign in "\\|`*_[]#~$!"} | {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "\n": " ",
    "\r": " ",
}


def escape(value: object) -> str:
    """A text that Markdown shows unchanged, in one line."""
    return str(value).translate(str.maketrans(ESCAPES))


@cache
def templates() -> Environment:
    """The folder of templates; each is compiled once, which takes longer than to fill it."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=lambda template: template.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": formatting.number,
        "interval": formatting.interval,
        "score_interval": formatting.score_interval,
        "score_value": formatting.score_value,
        "gate_value": formatting.gate_value,
        "gate_interval": formatting.gate_interval,
        "gate_metric": formatting.gate_metric,
        "gate_bound": formatting.gate_bound,
        "words": lambda name: name.replace("_", " "),
        "contamination": wording.contamination,
    }
    return environment


def fill(name: str, evaluation: dict, dated: str = "", **more) -> str:
    """Fill the template `name`; `dated`: see `run_facts`; `more` are values that only this template uses."""
    scores = scores_table(evaluation)
    return (
        templates()
        .get_template(name)
        .render(
            evaluation=evaluation,
            headline=wording.headline(evaluation),
            tone=wording.tone(evaluation),
            facts=wording.run_facts(evaluation, dated),
            explanation=wording.explanation(evaluation["gates"]),
            beside_compressor=wording.beside_compressor(evaluation),
            units_note=wording.units_note(evaluation),
            seeds_note=wording.seeds_note(evaluation["inputs"]["experiment"].get("training", {}).get("train", {})),
            scores=scores,
            together=scores[scores.language == "all"],
            by_language=scores[scores.language != "all"],
            metrics_of=scores.groupby("suite").metric.unique(),
            suites={suite: abouts()[suite].sentence for suite in scores.suite.unique()},
            contaminated=contamination_rows(evaluation),
            **more,
        )
    )
