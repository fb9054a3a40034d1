"""Suites over chats: asked is what stands before a chat's last answer, and that answer is the reference.

if __name__ == "__main__":
    run(lambda: main("qa", SUITE, figures, __doc__))
"""

import logging
from collections.abc import Callable
from pathlib import Path

from scripts.common.cli import UserError
from scripts.evaluation.generation.examples import pick, question, test_hashes
from scripts.evaluation.generation.model import command, load, write
from scripts.evaluation.metrics.metric import Suite, by_language, summarize

# (a text per sample, the reference) → the figures of an item
Figures = Callable[[list[str], str], dict]
Facts = Callable[[list[dict]], dict]


def score(
    name: str,
    suite: Suite,
    figures: Figures,
    folder: Path,
    datasets: Path,
    wanted: dict,
    out: Path,
    facts: Facts = lambda items: {},
    python: str | None = None,
) -> dict:
    """Write `items.jsonl.zst` and `scores.json` of the model in `folder`, and return the latter.

    Args:
        name: of the suite.
        wanted: `datasets`, `documents`, and the settings of `generate`.
        facts: what scores.json also says, made of all items.
        python: of vLLM's environment, if vLLM is to write.

    Raises:
        UserError: a dataset is not there, or holds no chat that can be asked.
    """
    hashes, chats = test_hashes(datasets, wanted["datasets"], name), []
    for dataset in wanted["datasets"]:
        path = datasets / dataset / "test.jsonl.zst"
        found = [(dataset, chat) for chat in pick(path, wanted["documents"])]
        if not found:
            raise UserError(
                f"{path}: no test example; raise the share of test, or take {dataset} out of the evaluation"
            )
        chats += found
    subject, asked = load(folder, python), [question(chat) for _, chat in chats]
    written, engine = subject.answers([prompt for prompt, _ in asked], wanted, label=name)
    items = [
        {
            "dataset": dataset,
            "id": chat["id"],
            "language": chat["language"],
            "prompt": prompt[-1]["content"] if prompt else "",
            "reference": reference,
            "written": texts,
            **figures(texts, reference),
        }
        for (dataset, chat), (prompt, reference), texts in zip(chats, asked, written, strict=True)
    ]
    scores = {}
    for dataset in wanted["datasets"]:
        found = [item for item in items if item["dataset"] == dataset]
        scores[dataset] = by_language(found, lambda some: summarize(suite, some))
        logging.info(f"{name} {dataset}: {scores[dataset]['all']}")
    return write(out, subject, items, hashes, scores, engine=engine, settings=wanted, **facts(items))


def main(name: str, suite: Suite, figures: Figures, doc: str, facts: Facts = lambda items: {}) -> None:
    """The command of such a suite."""
    arguments = command(doc)
    arguments.add_argument("--datasets", type=Path, required=True, help="folder of the composed datasets")
    given = arguments.parse_args()
    score(name, suite, figures, given.model, given.datasets, given.settings, given.out, facts, given.vllm)
