"""How answers are scored: exact match and F1 of short ones, pass@k of programs.

Exact match and F1 are as SQuAD defines them for English, and as CMRC 2018 does for Chinese. pass@k is the probability
that at least one of k samples passes, estimated without bias from n samples per problem (Chen et al. 2021).
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Collection
from difflib import SequenceMatcher
from math import comb

from scripts.common.text import CJK
from scripts.evaluation.metrics.metric import Suite, means
from scripts.judge.problem import FAULTS, OUTCOMES

ARTICLES = re.compile(r"\b(a|an|the)\b")


def is_chinese(reference: str) -> bool:
    """Whether the Chinese definitions apply to this reference."""
    return bool(CJK.search(reference))


def normalized(text: str) -> str:
    """The text in NFKC, case-folded, without punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if c not in string.punctuation and not unicodedata.category(c).startswith("P"))


def english_words(text: str) -> list[str]:
    """The words that SQuAD compares: without articles."""
    return ARTICLES.sub(" ", normalized(text)).split()


def chinese_units(text: str) -> list[str]:
    """The units that CMRC compares: each CJK character, and the words of any other script."""
    return CJK.sub(lambda match: f" {match[0]} ", normalized(text)).split()


def exact_match(prediction: str, reference: str) -> bool:
    """Whether both have the same words (SQuAD), or the same characters ignoring punctuation and spaces (CMRC)."""
    if is_chinese(reference):
        return "".join(chinese_units(prediction)) == "".join(chinese_units(reference))
    return english_words(prediction) == english_words(reference)


def f1(prediction: str, reference: str) -> float:
    """Harmonic mean of precision and recall, 0 to 1: over the common words (SQuAD), or over the longest common run of
    units (CMRC)."""
    if is_chinese(reference):
        predicted, expected = chinese_units(prediction), chinese_units(reference)
        common = SequenceMatcher(None, predicted, expected, autojunk=False).find_longest_match().size
    else:
        predicted, expected = english_words(prediction), english_words(reference)
        if not predicted or not expected:  # SQuAD: an empty answer is right if the reference is empty too
            return float(predicted == expected)
        common = (Counter(predicted) & Counter(expected)).total()
    if common:
        return 2 * common / (len(predicted) + len(expected))
    return 0.0


def strict_match(prediction: str, reference: str) -> bool:
    """Whether both are the same text except for Unicode form and white space: `C++` is not `C`, `a==b` not `a=b`."""
    predicted, expected = (unicodedata.normalize("NFKC", text).split() for text in (prediction, reference))
    return predicted == expected


def pass_at_k(samples: int, passed: int, k: int) -> float:
    """The estimate for one problem, `passed` of `samples` having passed; k is at most `samples`."""
    return 1 - comb(samples - passed, k) / comb(samples, k)


def pass_figures(outcomes: list[str], ks: list[int]) -> dict[str, float]:
    """For one problem: pass@k for each k, and how many samples had each outcome."""
    samples, passed = len(outcomes), outcomes.count("passed")
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    return {f"pass@{k}": pass_at_k(samples, passed, k) for k in ks} | counts


def pass_suite(ks: Collection[int]) -> Suite:
    """The suite over problems: a pass@k for each k; samples per outcome are counted beside it."""
    rates = means(*(f"pass@{k}" for k in ks))
    return rates._replace(figures=rates.figures | dict.fromkeys(OUTCOMES, 1), counts=OUTCOMES, faults=FAULTS)
