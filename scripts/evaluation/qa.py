"""Short answers of a model to the test chats: exact match, F1, and exact match that keeps the symbols of code.

    python -m scripts.evaluation.qa --model results/training/base --datasets results/corpus/compose \\
        --settings '{"datasets": ["python"], "documents": 200, "max_new_tokens": 40, "temperature": 0, "top_p": 1,
                     "repetition_penalty": 1.1, "beams": 1, "samples": 1, "seed": 42}' \\
        --out results/evaluation/qa/base

Of several samples the figures are means. What they are: scripts/evaluation/metrics/exact_match.py.
"""

from statistics import fmean

from scripts.common.cli import run
from scripts.evaluation.generation.chat_suite import main
from scripts.evaluation.metrics.exact_match import SUITE, exact_match, f1, strict_match


def figures(written: list[str], reference: str) -> dict[str, float]:
    """The means over samples of what SUITE sums."""
    return {
        measure.__name__: fmean(measure(text, reference) for text in written)
        for measure in (exact_match, f1, strict_match)
    }


if __name__ == "__main__":
    run(lambda: main("qa", SUITE, figures, __doc__))
