"""The report: results/report.html, one self-contained page with all results and their inputs.

    python -m scripts.report.page --results results
    python -m scripts.report.page --results results --summary     # only print the gates and the verdict

The page contains its pictures and loads nothing. Values from data are escaped.
"""

import math
import re
from datetime import UTC, datetime
from pathlib import Path

from markupsafe import Markup

from scripts.common.cli import parser, run
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json, read_jsonl
from scripts.experiment.layout import PICTURES, Layout, split_file
from scripts.experiment.suites import CHATS
from scripts.judge.outcomes import OUTCOMES
from scripts.report.content.eval_json import read_evaluation
from scripts.report.content.examples import generated_examples
from scripts.report.content.funnel import read_funnel
from scripts.report.content.plans import planned_and_measured, unplanned
from scripts.report.content.wording import summary
from scripts.report.templates.rendering import fill

EXAMPLES = 3  # best documents per model and dataset, and as many worst ones


def inline(picture: Path) -> Markup:
    """An SVG of rule plots for inlining: its ids start with its name, and its dark ink is the page's text colour.

    Raises:
        UserError: the file is missing, is not an SVG, or is truncated.
    """
    try:
        svg = picture.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UserError(f"{picture}: no such file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{picture}: not an SVG; delete it and run again") from error
    start = svg.find("<svg ")
    if start < 0 or not svg.rstrip().endswith("</svg>"):
        raise UserError(f"{picture}: not an SVG, or truncated; delete it and run again")
    name = picture.stem
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", svg[start:]).replace("#1f2328", "currentColor")
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1))


def bits_per_byte(item: dict) -> float:
    return item["nll"] / math.log(2) / item["bytes"]


def extremes(items: list[dict]) -> list[dict]:
    """The documents with the fewest and the most bits per byte, each with `kind` and `bits_per_byte`."""
    ranked = sorted((item for item in items if item["bytes"]), key=lambda item: (bits_per_byte(item), item["id"]))
    number = min(EXAMPLES, len(ranked) // 2)
    kinds = [("best", ranked[:number]), ("worst", ranked[len(ranked) - number :][::-1])]
    return [item | {"kind": kind, "bits_per_byte": bits_per_byte(item)} for kind, chosen in kinds for item in chosen]


def sample_chat(results: Path, dataset: str, items: list[dict]) -> dict | None:
    """The chat of a dataset with the median bits per byte; None if no item was scored."""
    ranked = sorted((item for item in items if item["bytes"]), key=lambda item: (bits_per_byte(item), item["id"]))
    if not ranked:
        return None
    middle = ranked[len(ranked) // 2]
    chats = read_jsonl(split_file(Layout(results).dataset(dataset), "test"))
    chat = next((chat for chat in chats if chat["id"] == middle["id"]), None)
    return chat and chat | {"dataset": dataset, "bits_per_byte": bits_per_byte(middle)}


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
    datasets = list(evaluation["scores"]["base"]["perplexity"])
    items = {
        model: list(read_jsonl(Layout(results).suite("perplexity", model) / "items.jsonl.zst")) for model in models
    }

    def items_of(model: str, dataset: str) -> list[dict]:
        return [item for item in items[model] if item["dataset"] == dataset]

    compose = inputs["experiment"]["corpus"]["compose"]
    chats = [dataset for dataset in datasets if compose[dataset]["kind"] in CHATS]
    return fill(
        "page.html.j2",
        evaluation,
        date_of(results, evaluation),
        models=models,
        datasets=datasets,
        outcomes=OUTCOMES,
        plans=planned_and_measured(evaluation["stages"]),
        unplanned=unplanned(evaluation["stages"]),
        generated=generated_examples(results, evaluation),
        funnel=read_funnel(results, list(inputs["sources"])),
        cards=read_json(path) if (path := Layout(results).cards / "cards.json").is_file() else {},
        pictures={name: inline(Layout(results).picture(name)) for name in PICTURES},
        extremes={model: {dataset: extremes(items_of(model, dataset)) for dataset in datasets} for model in models},
        chat=sample_chat(results, chats[0], items_of(models[-1], chats[0])) if chats else None,
    )


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--results", type=Path, required=True, help="the results root")
    arguments.add_argument("--summary", action="store_true", help="only print the gates and the verdict")
    args = arguments.parse_args()
    if args.summary:
        print(summary(read_evaluation(args.results), args.results))
        return
    page = render(args.results)
    with atomic(Layout(args.results).page) as temporary:
        temporary.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    run(main)
