"""BLEU and chrF by sacrebleu, as functions of summed n-gram statistics. Both from 0 to 1.

    python -c "from scripts.evaluation.metrics.bleu_chrf import statistics; print(statistics('a b c d', 'a b c e'))"

A text is one segment, however many lines it has. It is tokenized as sacrebleu does for Chinese (`zh`) if the reference
holds a CJK character, else as for English (`13a`). A BLEU score means nothing without the tokenizer's name, so
`signatures` returns it. The private functions of sacrebleu used here are those that its `corpus_score` is made of; a
test compares the result with sacrebleu's command.
"""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from scripts.evaluation.metrics.exact_match import is_chinese

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
