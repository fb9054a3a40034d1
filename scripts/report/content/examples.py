"""Examples of generated texts, all models side by side: where the tuned one gained most, and where it fails."""

from pathlib import Path

import numpy as np

from scripts.common.files import read_jsonl
from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.suites import suites_of
from scripts.experiment.layout import Layout
from scripts.report.content.scores_table import scores_table

EXAMPLES = 3  # of each kind per dataset
SHOWN_WHOLE = "function"  # the size of completions of which all items are shown
MAX_CHARACTERS = 4000  # longer texts are cut


def cut(text: str) -> str:
    """The first `MAX_CHARACTERS` of a text."""
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]} … ({len(text) - MAX_CHARACTERS:,} characters more)"


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
        base, tuned: the items of a dataset by id.
        count: how many are gained, and how many are failing; None for all items.
    """
    grades = {identity: (grade(suite, item), grade(suite, base[identity])) for identity, item in tuned.items()}
    gains = sorted(grades, key=lambda identity: (grades[identity][1] - grades[identity][0], identity))
    gained = [identity for identity in gains if grades[identity][0] > grades[identity][1]][:count]
    # among equal grades first those where the base is better
    worst = sorted(grades.keys() - set(gained), key=lambda name: (grades[name][0], -grades[name][1], name))
    failing = [identity for identity in worst if grades[identity][0] < 1][:count]
    solved = [identity for identity in worst if grades[identity][0] >= 1] if count is None else []
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
    not score both it and the base.

    Raises:
        UserError: items are missing or truncated.
    """
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
        written = {
            side: {
                item["id"]: item
                for item in read_jsonl(Layout(results).suite(suite, side) / "items.jsonl.zst")
                if item["dataset"] == dataset
            }
            for side in models
        }
        whole = suite == "completion" and dataset == SHOWN_WHOLE
        items = choose_examples(suite_of[suite], written["base"], written[model], None if whole else EXAMPLES)
        for item in items:
            item["sides"] = [side_of(suite_of[suite], side, written[side][item["id"]]) for side in models]
        group = {"suite": suite, "dataset": dataset, "model": model, "models": models, "items": items}
        groups.append(group | {"graded": graded_metric(suite_of[suite])})
    return groups


def side_of(suite: Suite, model: str, item: dict) -> dict:
    """What a model wrote for an item: `model`, `grade`, `text` and, of code, `outcome`."""
    verdict = (item.get("verdicts") or [{"outcome": "", "detail": ""}])[0]
    outcome = ": ".join(part for part in (verdict["outcome"], " ".join(verdict["detail"].split())[-120:]) if part)
    return {"model": model, "grade": grade(suite, item), "text": cut(item["written"][0]), "outcome": outcome}
