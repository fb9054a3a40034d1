"""Descriptions of code by a model against the reference descriptions: BLEU and chrF, from 0 to 1.

    python -m scripts.evaluation.bleu --model results/training/base --datasets results/corpus/compose --seed 42 \\
        --settings '{"datasets": ["instruct"], "documents": 50, "max_new_tokens": 512}' \\
        --out results/evaluation/bleu/base

Several samples of a chat count as so many texts. Definitions: scripts/evaluation/metrics/bleu_chrf.py.
"""

import numpy as np

from scripts.common.cli import run
from scripts.evaluation.generation.chat_suite import Scorer, main
from scripts.evaluation.metrics.bleu_chrf import SUITE, signatures, statistics
from scripts.experiment.settings.evaluation import Bleu


def figures(completions: list[str], reference: str) -> dict[str, list[int]]:
    """The figures of an item: sums over samples."""
    samples = [statistics(completion, reference) for completion in completions]
    return {name: np.sum([sample[name] for sample in samples], axis=0).tolist() for name in SUITE.figures}


def facts(items: list[dict]) -> dict:
    """The part of scores.json that says how texts were tokenized."""
    return {"signatures": signatures([item["reference"] for item in items])}


SCORER = Scorer("bleu", SUITE, figures, facts)

if __name__ == "__main__":
    run(lambda: main(SCORER, Bleu, __doc__))
