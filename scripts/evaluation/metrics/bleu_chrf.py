"""BLEU and chrF by sacrebleu, as functions of summed n-gram statistics. Both from 0 to 1.

    python -c "from scripts.evaluation.metrics.bleu_chrf import statistics; print(statistics('a b c d', 'a b c e'))"

A text is one segment, whatever lines it has. It is cut into words as sacrebleu does for Chinese where the reference
holds a CJK character (its tokenizer `zh`), else as for English (`13a`): BLEU means nothing without that name, so
`signatures` gives it. The names of sacrebleu that begin with an underscore are those that its `corpus_score` is made
of; a test holds the outcome against its command.
"""

import numpy as np
from sacrebleu.metrics import BLEU, CHRF

from scripts.evaluation.metrics.exact_match import is_chinese
from scripts.evaluation.metrics.metric import Metric, Suite

WORDS = {tokenizer: BLEU(tokenize=tokenizer) for tokenizer in ("13a", "zh")}
CHARACTERS = CHRF()
# [hypothesis length, reference length, matches of 1 to 4 words, n-grams of 1 to 4 words]
BLEU_SIZE = 2 + 2 * 4
# (n-grams of the hypothesis, of the reference, matches) for 1 to 6 characters
CHRF_SIZE = 3 * 6


def tokenizer_of(reference: str) -> str:
    """The name of sacrebleu's tokenizer for a reference and what is written in its place."""
    return "zh" if is_chinese(reference) else "13a"


def statistics(written: str, reference: str) -> dict[str, list[int]]:
    """What BLEU and chrF sum over texts: `{"bleu": [10 numbers], "chrf": [18 numbers]}`."""
    ours, theirs = (" ".join(text.split()) for text in (written, reference))
    words = WORDS[tokenizer_of(reference)]
    return {
        name: metric._extract_corpus_statistics([ours], [[theirs]])[0]
        for name, metric in (("bleu", words), ("chrf", CHARACTERS))
    }


def signatures(references: list[str]) -> dict[str, str]:
    """sacrebleu's signature of each metric that counts for these references, BLEU's by tokenizer."""
    found = {}
    for reference in references:
        tokenizer = tokenizer_of(reference)
        if tokenizer not in found:
            statistics("", reference)  # a signature tells how many references there are, known once there was one
            found[tokenizer] = str(WORDS[tokenizer].get_signature())
    bleus = {f"bleu {tokenizer}": found[tokenizer] for tokenizer in sorted(found)}
    return bleus | {"chrf": str(CHARACTERS.get_signature())}


def bleu(sums: np.ndarray) -> float:
    return WORDS["13a"]._compute_score_from_stats(sums.tolist()).score / 100


def chrf(sums: np.ndarray) -> float:
    return CHARACTERS._compute_score_from_stats(sums.tolist()).score / 100


SUITE = Suite(
    figures={"bleu": BLEU_SIZE, "chrf": CHRF_SIZE},
    metrics={
        "bleu": Metric(lambda sums: np.apply_along_axis(bleu, -1, sums[..., :BLEU_SIZE]), "above"),
        "chrf": Metric(lambda sums: np.apply_along_axis(chrf, -1, sums[..., BLEU_SIZE:-1]), "above"),
    },
    compared=("bleu", "chrf"),
)
