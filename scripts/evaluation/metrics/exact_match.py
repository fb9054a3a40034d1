"""Exact match and F1 of short answers, in English as SQuAD defines them and in Chinese as CMRC 2018 does.

    python -c "from scripts.evaluation.metrics.exact_match import f1; print(f1('The quick sort', 'quick sort'))"

An answer is Chinese where the reference holds a CJK character. Both definitions are applied after NFKC and case
folding, and drop punctuation, so `C++` matches `C`. `strict_match` keeps every symbol and the case, as code needs it.
"""

import re
import string
import unicodedata
from collections import Counter
from difflib import SequenceMatcher

from scripts.evaluation.metrics.metric import means

SUITE = means("exact_match", "f1", "strict_match")
ARTICLES = re.compile(r"\b(a|an|the)\b")
CJK = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]")


def is_chinese(reference: str) -> bool:
    """Whether the Chinese definitions apply to this reference."""
    return bool(CJK.search(reference))


def plain(text: str) -> str:
    """NFKC, case-folded, without punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if c not in string.punctuation and not unicodedata.category(c).startswith("P"))


def english(text: str) -> list[str]:
    """The words that SQuAD compares: without articles."""
    return ARTICLES.sub(" ", plain(text)).split()


def chinese(text: str) -> list[str]:
    """The units that CMRC compares: each CJK character, and words of anything else."""
    return CJK.sub(lambda found: f" {found[0]} ", plain(text)).split()


def exact_match(prediction: str, reference: str) -> bool:
    """Whether both are the same words (SQuAD), or the same characters but for punctuation and spaces (CMRC)."""
    if is_chinese(reference):
        return "".join(chinese(prediction)) == "".join(chinese(reference))
    return english(prediction) == english(reference)


def f1(prediction: str, reference: str) -> float:
    """Harmonic mean of precision and recall, 0 to 1: over the words in common (SQuAD), or over the longest run of units
    in common (CMRC)."""
    if is_chinese(reference):
        ours, theirs = chinese(prediction), chinese(reference)
        common = SequenceMatcher(None, ours, theirs, autojunk=False).find_longest_match().size
    else:
        ours, theirs = english(prediction), english(reference)
        if not ours or not theirs:  # SQuAD: an empty answer is right where the reference is empty too
            return float(ours == theirs)
        common = (Counter(ours) & Counter(theirs)).total()
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


def strict_match(prediction: str, reference: str) -> bool:
    """Whether both are the same text but for Unicode forms and white space: `C++` is not `C`, `a==b` not `a=b`."""
    ours, theirs = (unicodedata.normalize("NFKC", text).split() for text in (prediction, reference))
    return ours == theirs
