"""The report: results/report.html, one self-contained page with all results and their inputs, and results/scores.csv.

    python -m scripts.report.page --results results
    python -m scripts.report.page --results results --summary     # only print the gates and the verdict

The page contains its pictures and loads nothing. Values from data are escaped.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from markupsafe import Markup

from scripts.common.cli import run
from scripts.common.files import atomic, read_jsonl
from scripts.common.options import command
from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.suites import suites_of
from scripts.experiment.layout import Layout
from scripts.judge.problem import OUTCOMES
from scripts.report.content import pictures
from scripts.report.content.eval_json import read_evaluation
from scripts.report.content.funnel import read_funnel
from scripts.report.content.pictures import read_metrics
from scripts.report.content.rendering import fill
from scripts.report.content.scores_table import scores_csv, scores_table
from scripts.report.content.wording import planned_and_measured, printed_summary, unplanned

EXAMPLES = 3  # of each kind per dataset
SHOWN_WHOLE = "function"  # the size of completions of which all items are shown
MAX_CHARACTERS = 4000  # longer texts are cut


def cut(text: str) -> str:
    """The first `MAX_CHARACTERS` of a text."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]} … ({len(text) - MAX_CHARACTERS:,} characters more)"


LONGEST_PIECE = 200  # characters of what repeats itself


def repeats(text: str) -> bool:
    """Whether a text ends in the same piece over and over, as small models write that have lost the thread: three times
    if it has 20 characters, else four times and over 16 characters. Of the last piece the end may be missing."""
    end = text.rstrip().rstrip(".!?,;:。！？，；：")
    for size in range(1, min(LONGEST_PIECE, len(end) // 2) + 1):
        piece = end[-size:]
        times = 3 if size >= 20 else max(4, math.ceil(16 / size))
        if end.endswith((piece * times)[2:]) and re.search(r"\w", piece):
            return True
    return False


def graded_metric(suite: Suite) -> str:
    """The metric by which the items of a suite are ordered and graded."""
    return suite.graded or suite.compared[0]


def grade(suite: Suite, item: dict) -> float:
    """The metric by which items are graded, from 0 to 1; more is better."""
    columns = np.array(suite.columns(item), dtype=np.float64)
    return float(suite.metrics[graded_metric(suite)].compute(columns))


def choose_examples(
    suite: Suite, base: dict[str, dict], tuned: dict[str, dict], count: int | None = EXAMPLES
) -> list[dict]:
    """Items with `kind` (`gained`, `failing` or `solved`), prompt and reference; no item occurs twice.

    Args:
        base, tuned: the items of a dataset by id. A text that repeats itself has gained nothing.
        count: how many are gained, and how many are failing; None for all items.
    """
    grades = {identity: (grade(suite, item), grade(suite, base[identity])) for identity, item in tuned.items()}
    gains = sorted(grades, key=lambda identity: (grades[identity][1] - grades[identity][0], identity))
    gained = []
    for identity in gains:
        if grades[identity][0] > grades[identity][1] and not repeats(tuned[identity]["written"][0]):
            gained.append(identity)
    gained = gained[:count]
    # among equal grades first those where the base is better
    worst = sorted(grades.keys() - set(gained), key=lambda name: (grades[name][0], -grades[name][1], name))
    failing = [identity for identity in worst if grades[identity][0] < 1][:count]
    solved = []
    if count is None:
        solved = [identity for identity in worst if grades[identity][0] >= 1]
    return [
        {
            "kind": kind,
            "id": identity,
            "language": tuned[identity]["language"],
            "figures": {side: grades[identity][place] for place, side in enumerate(("tuned", "base"))},
            "prompt": cut(tuned[identity]["prompt"]),
            "reference": cut(tuned[identity]["reference"]),
        }
        for kind, identities in (("gained", gained), ("failing", failing), ("solved", solved))
        for identity in identities
    ]


def generated_examples(results: Path, evaluation: dict) -> list[dict]:
    """For each suite with generated texts and each dataset, what the models wrote.

    Each has `suite`, `dataset`, `models`, `model`, `graded` (the metric of the grades), and `items` with the `sides` of
    all models. The model is the one trained on the dataset, else the last stage. Datasets are left out if a suite does
    not score both it and the base."""
    trained = {row["dataset"]: row["model"] for row in evaluation["summary"]["datasets"]}
    last, groups = list(evaluation["stages"])[-1], []
    configured = evaluation["inputs"]["experiment"]["evaluation"]
    suite_of = suites_of(configured)
    scores = scores_table(evaluation)
    for (suite, dataset), scored in scores[scores.suite != "perplexity"].groupby(["suite", "dataset"], sort=False):
        model = trained.get(dataset, last)
        if not {"base", model} <= set(scored.model):
            continue
        models = list(dict.fromkeys(scored.model))
        written = {}
        for side in models:
            written[side] = {
                item["id"]: item
                for item in read_jsonl(Layout(results).suite(suite, side) / "items.jsonl.zst")
                if item["dataset"] == dataset
            }
        whole = suite == "completion" and dataset == SHOWN_WHOLE
        items = choose_examples(suite_of[suite], written["base"], written[model], None if whole else EXAMPLES)
        for item in items:
            item["sides"] = []
            for side in models:
                item["sides"] += sides_of(suite_of[suite], side, written[side][item["id"]])
        group = {"suite": suite, "dataset": dataset, "model": model, "models": models, "items": items}
        groups.append(group | {"graded": graded_metric(suite_of[suite])})
    return groups


def sides_of(suite: Suite, model: str, item: dict) -> list[dict]:
    """What a model wrote for an item: as it is and, of suite `completion`, after retrieved code."""
    sides, retrieval = [side_of(suite, model, item)], item.get("retrieval")
    if retrieval:
        sides.append(side_of(suite, f"{model} + retrieval", item | retrieval["figures"] | retrieval))
    return sides


def side_of(suite: Suite, model: str, item: dict) -> dict:
    """What a model wrote for an item: `model`, `grade`, `text` and, of code, `outcome`."""
    verdict = (item.get("verdicts") or [{"outcome": "", "detail": ""}])[0]
    outcome = ": ".join(part for part in (verdict["outcome"], " ".join(verdict["detail"].split())[-120:]) if part)
    if repeats(item["written"][0]):
        outcome = ", ".join(filter(None, [outcome, "repeats itself"]))
    return {"model": model, "grade": grade(suite, item), "text": cut(item["written"][0]), "outcome": outcome}


def drawn(picture: Callable, data: object) -> Markup:
    """A picture for inlining: its ids start with its name, and its dark ink is the page's text colour."""
    name, text = picture.__name__, pictures.svg(picture, data)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text[text.index("<svg ") :])
    text = text.replace("#1f2328", "currentColor")
    return Markup(text.replace("<svg ", f'<svg role="img" aria-label="{name}" ', 1))


def date_of(results: Path, evaluation: dict) -> str:
    """The date of the last stage's files."""
    path = Layout(results).model(list(evaluation["stages"])[-1]) / "environment.json"
    if path.exists():
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    return ""


def render(results: Path) -> str:
    """The HTML page of the results root `results`. Raises UserError: a file that it shows is missing or malformed."""
    evaluation = read_evaluation(results)
    question = evaluation["question"]
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
        pictures={
            "differences": drawn(pictures.differences, question) if question else "",
            "curve": drawn(pictures.curve, question) if question and question["curve"] else "",
            "loss": drawn(pictures.loss, logs),
            "scores": drawn(pictures.scores, evaluation),
        },
    )


def write_page(results: Path, summary: bool = False) -> None:
    """Write the page and the scores of the results root. `summary`: only print the gates and the verdict."""
    evaluation, layout = read_evaluation(results), Layout(results)
    if summary:
        print(printed_summary(evaluation, results))
        return
    page = render(results)
    with atomic(layout.page) as temporary:
        temporary.write_text(page, encoding="utf-8")
    with atomic(layout.scores) as temporary:
        temporary.write_text(scores_csv(evaluation), encoding="utf-8")


if __name__ == "__main__":
    run(command(write_page))
