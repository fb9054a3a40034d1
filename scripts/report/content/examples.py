"""Examples of what models wrote: where the tuned model gained most on the base, and where it fails."""

from pathlib import Path
from statistics import fmean

import numpy as np

from scripts.common.files import read_jsonl
from scripts.evaluation.metrics.metric import Suite
from scripts.evaluation.metrics.registry import suites
from scripts.experiment.layout import Layout
from scripts.report.content.report_data import read_scores

EXAMPLES = 3  # of each kind per dataset
LONGEST = 4000  # characters of a text that are shown


def cut(text: str) -> str:
    """A text as far as it is shown."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST:,} characters more)"


def grade(suite: Suite, item: dict) -> float:
    """How good an item is: the mean of what models are compared by, more being better."""
    columns = np.array(suite.columns(item), dtype=np.float64)
    return fmean(float(suite.metrics[metric].of(columns)) for metric in suite.compared)


def chosen(suite: Suite, base: dict[str, dict], tuned: dict[str, dict]) -> list[dict]:
    """Items with `kind` (`gained` or `failing`) and both models' `written`; none is there twice.

    Args:
        base, tuned: the items of a dataset by id.
    """
    grades = {identity: (grade(suite, item), grade(suite, base[identity])) for identity, item in tuned.items()}
    gains = sorted(grades, key=lambda identity: (grades[identity][1] - grades[identity][0], identity))
    gained = [identity for identity in gains if grades[identity][0] > grades[identity][1]][:EXAMPLES]
    # among equals those first that the base did better
    worst = sorted(grades.keys() - set(gained), key=lambda name: (grades[name][0], -grades[name][1], name))
    failing = [identity for identity in worst if grades[identity][0] < 1][:EXAMPLES]
    return [
        {
            "kind": kind,
            "id": identity,
            "language": tuned[identity]["language"],
            "figures": {side: grades[identity][place] for place, side in enumerate(("tuned", "base"))},
            "prompt": cut(tuned[identity]["prompt"]),
            "reference": cut(tuned[identity]["reference"]),
            "base": cut(base[identity]["written"][0]),
            "tuned": cut(tuned[identity]["written"][0]),
        }
        for kind, identities in (("gained", gained), ("failing", failing))
        for identity in identities
    ]


def written(results: Path, evaluation: dict) -> list[dict]:
    """For each suite that lets models write, and each dataset: `suite`, `dataset`, `model` and `items` (see `chosen`).

    The tuned model is the one trained on the dataset, else the last stage. Suites that do not score both are left out.

    Raises:
        UserError: items are missing or cut short.
    """
    trained = {row["dataset"]: row["model"] for row in evaluation["summary"]["datasets"]}
    last, found = list(evaluation["stages"])[-1], []
    table = suites(evaluation["inputs"]["experiment"]["evaluation"])
    for name, scored in read_scores(evaluation).items():
        if name == "perplexity":
            continue
        for dataset in next(iter(scored.values())):
            model = trained.get(dataset, last)
            if not {"base", model} <= scored.keys():
                continue
            base, tuned = (
                {
                    item["id"]: item
                    for item in read_jsonl(Layout(results).suite(name, side) / "items.jsonl.zst")
                    if item["dataset"] == dataset
                }
                for side in ("base", model)
            )
            items = chosen(table[name], base, tuned)
            found.append({"suite": name, "dataset": dataset, "model": model, "items": items})
    return found
