"""Short answers of a model to the test chats: exact match, F1, and exact match that keeps the symbols of code.

    python -m scripts.evaluation.qa --model results/training/base --datasets results/corpus/compose --seed 42 \\
        --settings '{"datasets": ["python"], "documents": 200, "max_new_tokens": 40, "repetition_penalty": 1.1}' \\
        --out results/evaluation/qa/base

With several samples the figures are means. Definitions: scripts/evaluation/metrics/exact_match.py.
"""

from statistics import fmean

from scripts.common.cli import run
from scripts.evaluation.generation.chat_suite import Scorer, main
from scripts.evaluation.metrics.exact_match import SUITE, exact_match, f1, strict_match
from scripts.experiment.settings.evaluation import Qa


def figures(completions: list[str], reference: str) -> dict[str, float]:
    """The figures of an item: means over samples."""
    return {
        metric.__name__: fmean(metric(completion, reference) for completion in completions)
        for metric in (exact_match, f1, strict_match)
    }


SCORER = Scorer("qa", SUITE, figures)

if __name__ == "__main__":
    run(lambda: main(SCORER, Qa, __doc__))
