"""How an answer is scored: exact match and F1, closeness of code, identifiers that would have been next, pass@k.

Exact match and F1 of short answers are as SQuAD defines them for English, and as CMRC 2018 does for Chinese; closeness of
code is measured as by CrossCodeEval.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Collection
from difflib import SequenceMatcher
from math import comb

import numpy as np
from rapidfuzz import fuzz

from scripts.common.text import CJK
from scripts.corpus.syntax.grammars import error_bytes, grammar
from scripts.evaluation.code_tasks.regions import code_lines
from scripts.evaluation.metrics.metric import Suite, means
from scripts.judge.problem import FAULTS, OUTCOMES
from scripts.languages import completions
from scripts.tokens.packing.encoder import Encoded, Encoder

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


IDENTIFIER = re.compile(r"\b[_a-zA-Z][_a-zA-Z0-9]*\b")


def completion_match(completion: str, answer: str) -> bool:
    """Whether both have the same lines, without indentation and empty lines."""
    return code_lines(completion) == code_lines(answer)


def edit_similarity(completion: str, answer: str) -> float:
    """rapidfuzz's ratio of both texts, 0 to 1, white space around them aside; a line may end in LF or CRLF."""
    both = [text.replace("\r\n", "\n").strip() for text in (completion, answer)]
    return fuzz.ratio(*both) / 100


def identifiers(text: str, language: str) -> set[str]:
    """The words of a text outside strings that are no keyword of the language."""
    known, rules = grammar(language)[0].language, completions()[language]
    words = set(IDENTIFIER.findall(rules.strings.sub("", text)))
    return {word for word in words if word in rules.names_too or known.id_for_node_kind(word, False) is None}


def identifier_f1(completion: str, answer: str, language: str) -> float:
    """F1 of the sets of identifiers, 0 to 1; 0 if they have none in common."""
    predicted, expected = identifiers(completion, language), identifiers(answer, language)
    common = len(predicted & expected)
    if common:
        return 2 * common / (len(predicted) + len(expected))
    return 0.0


def errors(text: str, language: str) -> int:
    """Bytes in syntax errors; a missing token counts as one."""
    root = grammar(language)[0].parse(text.encode()).root_node
    missing, nodes = 0, [root]
    while nodes:
        node = nodes.pop()
        missing += node.is_missing
        nodes += [child for child in node.children if child.has_error]
    return error_bytes(root) + missing


def parses(before: str, completion: str, answer: str, after: str, language: str) -> bool:
    """Whether the file with the completion has no more syntax errors than with the answer."""
    return errors(before + completion + after, language) <= errors(before + answer + after, language)


NAME = re.compile(rb"(?<![\w\x80-\xff])[A-Za-z_]\w*(?![\w\x80-\xff])")  # in ASCII alone


def names_in(text: bytes, language: str) -> list[tuple[int, int]]:
    """(first byte, end) of each name in a text that is no keyword of the language."""
    rules = completions().get(language)
    known, spans = grammar(language)[0].language if rules else None, []
    for match in NAME.finditer(text):
        word = match[0].decode()
        if rules is None or word in rules.names_too or known.id_for_node_kind(word, False) is None:
            spans.append(match.span())
    return spans


def count_identifiers(
    encoded: Encoded, hits: np.ndarray, encoder: Encoder, languages: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """How many names each document has, and how many of them are right. `hits`: bool [tokens], whether each token was
    the likeliest one; `languages`: of each document."""
    counted, right = np.zeros(len(languages), np.int64), np.zeros(len(languages), np.int64)
    for number, language in enumerate(languages):
        first, last = encoded.offsets[number], encoded.offsets[number + 1]
        ids = encoded.ids[first:last]
        ends = np.cumsum(encoder.bytes_of[ids])
        text = b"".join(encoder.spelled[token] for token in ids)
        for start, end in names_in(text, language):
            low = int(np.searchsorted(ends, start, side="right"))
            high = int(np.searchsorted(ends, end, side="left")) + 1
            if low > 0:
                counted[number] += 1
                right[number] += bool(hits[first + low : first + high].all())
    return counted, right


def unbiased(samples: int, passed: int, k: int) -> float:
    """The estimate for one problem, `passed` of `samples` having passed; k is at most `samples`."""
    return 1 - comb(samples - passed, k) / comb(samples, k)


def figures(outcomes: list[str], ks: list[int]) -> dict[str, float]:
    """For one problem: pass@k for each k, and how many samples had each outcome."""
    samples, passed = len(outcomes), outcomes.count("passed")
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    return {f"pass@{k}": unbiased(samples, passed, k) for k in ks} | counts


def suite(ks: Collection[int]) -> Suite:
    """The suite over problems: a pass@k for each k; samples per outcome are counted beside it."""
    rates = means(*(f"pass@{k}" for k in ks))
    return rates._replace(figures=rates.figures | dict.fromkeys(OUTCOMES, 1), counts=OUTCOMES, faults=FAULTS)
