"""Short answers of a model to the test chats: exact match, F1, and exact match that keeps the symbols of code.

    python -m scripts.evaluation.suites.qa --model results/training/base --datasets results/corpus/compose --seed 42 \\
        --settings '{"datasets": ["python"], "documents": 200, "max_new_tokens": 40, "repetition_penalty": 1.1}' \\
        --out results/evaluation/qa/base

With several samples the figures are means. Definitions: scripts/evaluation/metrics/scoring.py.
"""

from statistics import fmean

from pydantic import Field

from scripts.common.cli import run
from scripts.evaluation.generation import chat_suite
from scripts.evaluation.generation.chat_suite import ChatSettings, Scorer, main
from scripts.evaluation.metrics.metric import means
from scripts.evaluation.metrics.scoring import exact_match, f1, strict_match
from scripts.evaluation.suites import About
from scripts.experiment.settings.record import Number
from scripts.experiment.settings.suites import REPETITION

PLACE = 2
ABOUT = About(
    "Answers to chats, 0 to 1: share of exact matches, mean F1 over words (Chinese: characters), share of matches that"
    " keep every symbol of code. More is better."
)
SUITE = means("exact_match", "f1", "strict_match")._replace(graded="f1")
completed, check, prompts, small = chat_suite.completed, chat_suite.check, chat_suite.prompts, chat_suite.small


class Settings(ChatSettings):
    """Off unless given (`qa: {}` for the defaults). Scores answers to chats by exact match and F1."""

    max_new_tokens: int = Field(40, ge=1, description="Maximum number of generated tokens.")
    repetition_penalty: Number = Field(1.1, gt=0, description=REPETITION)


def figures(completions: list[str], reference: str) -> dict[str, float]:
    """The figures of an item: means over samples."""
    found = {}
    for metric in (exact_match, f1, strict_match):
        found[metric.__name__] = fmean(metric(completion, reference) for completion in completions)
    return found


SCORER = Scorer("qa", SUITE, figures)

if __name__ == "__main__":
    run(lambda: main(SCORER, Settings, __doc__))
