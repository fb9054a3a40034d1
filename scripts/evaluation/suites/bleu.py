"""Descriptions of code by a model against the reference descriptions: BLEU and chrF, from 0 to 1.

    python -m scripts.evaluation.suites.bleu --model results/training/base --datasets results/corpus/compose \\
        --seed 42 --settings '{"datasets": ["instruct"], "documents": 50, "max_new_tokens": 512}' \\
        --out results/evaluation/bleu/base

Several samples of a chat count as so many texts. Definitions: scripts/evaluation/metrics/bleu_chrf.py.
"""

import numpy as np
from pydantic import Field

from scripts.common.cli import run
from scripts.evaluation.generation import chat_suite
from scripts.evaluation.generation.chat_suite import ChatSettings, Scorer, main
from scripts.evaluation.metrics.bleu_chrf import BLEU_SIZE, CHRF_SIZE, bleu, chrf, signatures, statistics
from scripts.evaluation.metrics.metric import Metric, Suite
from scripts.evaluation.suites import About

PLACE = 3
ABOUT = About(
    "Descriptions of code, BLEU and chrF by sacrebleu from 0 to 1 (its own scale is 0 to 100). More is better."
)
SUITE = Suite(
    figures={"bleu": BLEU_SIZE, "chrf": CHRF_SIZE},
    metrics={
        # the second figure is the length of the reference
        "bleu": Metric(
            lambda sums: np.apply_along_axis(bleu, -1, sums[..., :BLEU_SIZE]), "above", size_column=1, highest=1.0
        ),
        "chrf": Metric(lambda sums: np.apply_along_axis(chrf, -1, sums[..., BLEU_SIZE:-1]), "above", highest=1.0),
    },
    compared=("bleu", "chrf"),
    graded="chrf",  # BLEU of a single short text is mostly 0
)
completed, check, prompts, small = chat_suite.completed, chat_suite.check, chat_suite.prompts, chat_suite.small


class Settings(ChatSettings):
    """Off unless given (`bleu: {}` for the defaults). Scores descriptions of code by BLEU and chrF."""

    documents: int = Field(50, ge=1, description="Maximum number of chats per dataset and language.")


def figures(completions: list[str], reference: str) -> dict[str, list[int]]:
    """The figures of an item: sums over samples."""
    samples = [statistics(completion, reference) for completion in completions]
    return {name: np.sum([sample[name] for sample in samples], axis=0).tolist() for name in SUITE.figures}


def facts(items: list[dict]) -> dict:
    """The part of scores.json that says how texts were tokenized."""
    return {"signatures": signatures([item["reference"] for item in items])}


SCORER = Scorer("bleu", SUITE, figures, facts)

if __name__ == "__main__":
    run(lambda: main(SCORER, Settings, __doc__))
