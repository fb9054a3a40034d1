"""Suites over chats: asked is what stands before a chat's last answer, and that answer is the reference.

if __name__ == "__main__":
    run(lambda: main("qa", SUITE, figures, __doc__))
"""

import logging
from collections.abc import Callable
from pathlib import Path

from scripts.common.cli import UserError, parser, settings
from scripts.evaluation.asked import pick, question, test_hashes
from scripts.evaluation.generate import ENGINE, generate
from scripts.evaluation.measures import Suite, by_language, summarize
from scripts.evaluation.subject import Subject, load, write

# (a text per sample, the reference) → the figures of an item
Figures = Callable[[list[str], str], dict]
Facts = Callable[[list[dict]], dict]


def answered(subject: Subject, path: Path, dataset: str, wanted: dict, label: str) -> list[dict]:
    """What the model answers: `dataset`, `id`, `language`, `prompt`, `reference` and `written`, a text per sample.

    Raises:
        UserError: there is no chat to ask, or one cannot be asked.
    """
    chats = pick(path, wanted["documents"])
    if not chats:
        raise UserError(f"{path}: no test example; raise the share of test, or take {dataset} out of the evaluation")
    asked = [question(chat) for chat in chats]
    written = generate(subject.model, subject.encoder, [prompt for prompt, _ in asked], wanted, label=label)
    return [
        {
            "dataset": dataset,
            "id": chat["id"],
            "language": chat["language"],
            "prompt": prompt[-1]["content"] if prompt else "",
            "reference": reference,
            "written": texts,
        }
        for chat, (prompt, reference), texts in zip(chats, asked, written, strict=True)
    ]


def score(
    name: str,
    suite: Suite,
    figures: Figures,
    folder: Path,
    datasets: Path,
    wanted: dict,
    out: Path,
    facts: Facts = lambda items: {},
) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of the model in `folder`, and return the latter.

    Args:
        name: of the suite.
        wanted: `datasets`, `documents`, and the settings of `generate`.
        facts: what scores.json also says, made of all items.

    Raises:
        UserError: a dataset is not there, or holds no chat that can be asked.
    """
    hashes, subject = test_hashes(datasets, wanted["datasets"], name), load(folder)
    items, scores = [], {}
    for dataset in wanted["datasets"]:
        found = answered(subject, datasets / dataset / "test.jsonl.zst", dataset, wanted, f"{name} {dataset}")
        found = [item | figures(item["written"], item["reference"]) for item in found]
        scores[dataset] = by_language(found, lambda some: summarize(suite, some))
        items += found
        logging.info(f"{name} {dataset}: {scores[dataset]['all']}")
    return write(out, subject, items, hashes, scores, engine=ENGINE, settings=wanted, **facts(items))


def main(name: str, suite: Suite, figures: Figures, doc: str, facts: Facts = lambda items: {}) -> None:
    """The command of such a suite."""
    arguments = parser(doc)
    arguments.add_argument("--model", type=Path, required=True, help="model folder")
    arguments.add_argument("--datasets", type=Path, required=True, help="folder of the composed datasets")
    arguments.add_argument("--settings", type=settings, required=True, help=f"evaluation.{name} and seed")
    arguments.add_argument("--out", type=Path, required=True, help="folder for items and scores")
    given = arguments.parse_args()
    score(name, suite, figures, given.model, given.datasets, given.settings, given.out, facts)
