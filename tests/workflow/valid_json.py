"""Share of the answers to chats that are JSON.

    python -m scripts.evaluation.suites.valid_json --model results/training/base --datasets results/corpus/compose \\
        --seed 42 --settings '{"datasets": ["instruct"]}' --out results/evaluation/valid_json/base
"""

import json
from statistics import fmean

from scripts.common.cli import run
from scripts.evaluation.generation import chat_suite
from scripts.evaluation.generation.chat_suite import ChatSettings, Scorer, main
from scripts.evaluation.metrics.metric import means
from scripts.evaluation.suites import About

PLACE = 11  # in the report
ABOUT = About("Share of answers that are JSON, 0 to 1. More is better.")
SUITE = means("valid_json")
completed, check, prompts, small = chat_suite.completed, chat_suite.check, chat_suite.prompts, chat_suite.small


class Settings(ChatSettings):
    """Off unless given (`valid_json: {}` for the defaults). Counts the answers to chats that are JSON."""


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def figures(completions: list[str], reference: str) -> dict[str, float]:
    """The figures of an item: a mean over samples."""
    return {"valid_json": fmean(map(is_json, completions))}


SCORER = Scorer("valid_json", SUITE, figures)

if __name__ == "__main__":
    run(lambda: main(SCORER, Settings, __doc__))
