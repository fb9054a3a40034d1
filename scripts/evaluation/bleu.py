"""What a model says of code against the reference descriptions: BLEU and chrF, from 0 to 1.

    python -m scripts.evaluation.bleu --model results/training/base --datasets results/corpus/compose \\
        --settings '{"datasets": ["instruct"], "documents": 50, "max_new_tokens": 512, "temperature": 0, "top_p": 1,
                     "repetition_penalty": 1.1, "beams": 1, "samples": 1, "seed": 42}' \\
        --out results/evaluation/bleu/base

Several samples of a chat are so many texts. What is counted: scripts/evaluation/metrics/bleu_chrf.py.
"""

import numpy as np

from scripts.common.cli import run
from scripts.evaluation.generation.chat_suite import main
from scripts.evaluation.metrics.bleu_chrf import SUITE, signatures, statistics


def figures(written: list[str], reference: str) -> dict[str, list[int]]:
    """The sums over samples of what SUITE sums."""
    found = [statistics(text, reference) for text in written]
    return {name: np.sum([one[name] for one in found], axis=0).tolist() for name in SUITE.figures}


def facts(items: list[dict]) -> dict:
    """What scores.json says of how texts were cut into words."""
    return {"signatures": signatures([item["reference"] for item in items])}


if __name__ == "__main__":
    run(lambda: main("bleu", SUITE, figures, __doc__, facts))
