"""Descriptions of code by a model against the reference descriptions: BLEU and chrF, from 0 to 1.

    python -m scripts.evaluation.suites.bleu --model results/training/base --datasets results/corpus/compose \\
        --seed 42 --settings '{"datasets": ["instruct"], "documents": 50, "max_new_tokens": 512}' \\
        --out results/evaluation/bleu/base

Several samples of a chat count as so many texts. A text is one segment, however many lines it has, and tokenized as
sacrebleu does for Chinese (`zh`) if the reference holds a CJK character, else as for English (`13a`). A BLEU score
means nothing without the tokenizer's name, so scores.json holds sacrebleu's signatures. The private functions of
sacrebleu used here are those that its `corpus_score` is made of; a test compares the result with sacrebleu's command.
"""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from scripts.common.cli import run
from scripts.evaluation.generation import chat_suite
from scripts.evaluation.generation.chat_suite import ChatSettings, Scorer, main
from scripts.evaluation.metrics.metric import Metric, Suite
from scripts.evaluation.metrics.scoring import is_chinese
from scripts.evaluation.suites import About

if TYPE_CHECKING:
    from sacrebleu.metrics import BLEU, CHRF

# [hypothesis length, reference length, matches of 1 to 4 words, n-grams of 1 to 4 words]
BLEU_SIZE = 2 + 2 * 4
# (n-grams of the hypothesis, of the reference, matches) for 1 to 6 characters
CHRF_SIZE = 3 * 6


@cache
def words(tokenizer: str) -> "BLEU":
    """BLEU with one of sacrebleu's tokenizers: `13a` or `zh`."""
    from sacrebleu.metrics import BLEU  # here, as most programs that know all metrics need no BLEU

    return BLEU(tokenize=tokenizer)


@cache
def characters() -> "CHRF":
    from sacrebleu.metrics import CHRF

    return CHRF()


def tokenizer_of(reference: str) -> str:
    """The name of sacrebleu's tokenizer for a reference and the completions compared with it."""
    return "zh" if is_chinese(reference) else "13a"


def statistics(completion: str, reference: str) -> dict[str, list[int]]:
    """What BLEU and chrF sum over texts: `{"bleu": [10 numbers], "chrf": [18 numbers]}`."""
    hypothesis, target = (" ".join(text.split()) for text in (completion, reference))
    metrics = {"bleu": words(tokenizer_of(reference)), "chrf": characters()}
    return {name: metric._extract_corpus_statistics([hypothesis], [[target]])[0] for name, metric in metrics.items()}


def signatures(references: list[str]) -> dict[str, str]:
    """sacrebleu's signature of each metric used for these references, BLEU's by tokenizer."""
    by_tokenizer = {}
    for reference in references:
        tokenizer = tokenizer_of(reference)
        if tokenizer not in by_tokenizer:
            statistics("", reference)  # a signature has the number of references, known only after a first one
            by_tokenizer[tokenizer] = str(words(tokenizer).get_signature())
    bleus = {f"bleu {tokenizer}": by_tokenizer[tokenizer] for tokenizer in sorted(by_tokenizer)}
    return bleus | {"chrf": str(characters().get_signature())}


def bleu(sums: np.ndarray) -> float:
    return words("13a")._compute_score_from_stats(sums.tolist()).score / 100


def chrf(sums: np.ndarray) -> float:
    return characters()._compute_score_from_stats(sums.tolist()).score / 100


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
    found = {}
    for name in SUITE.figures:
        found[name] = np.sum([sample[name] for sample in samples], axis=0).tolist()
    return found


def facts(items: list[dict]) -> dict:
    """The part of scores.json that says how texts were tokenized."""
    return {"signatures": signatures([item["reference"] for item in items])}


SCORER = Scorer("bleu", SUITE, figures, facts)

if __name__ == "__main__":
    run(lambda: main(SCORER, Settings, __doc__))
