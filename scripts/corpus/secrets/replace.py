"""Replace secrets and personal data in a text by placeholders of their type, and count them by kind.

    raw, counts = replace_secrets(b"key = 'ghp_...'")        # b"key = '<TOKEN>'", {"github-pat": 1}

One pass over the text finds which keywords occur; only the rules with one of these keywords are run. The secrets
themselves are never logged or written: only their kinds are counted.
"""

import math
from collections import Counter
from functools import cache
from typing import NamedTuple

import re2

from scripts.corpus.secrets.detectors import detect_secrets_rules
from scripts.corpus.secrets.rules import Rule, own_rules, re2_options


class Rules(NamedTuple):
    """All rules, and an index that tells which of them may match a text."""

    rules: list[Rule]
    keywords: object  # re2.Set of all keywords, searched for in one pass
    by_keyword: list[list[int]]  # by number of the keyword: the numbers of the rules with it


@cache
def all_rules() -> Rules:
    rules = [*own_rules(), *detect_secrets_rules()]
    keywords = set()
    for rule in rules:
        keywords.update(rule.keywords)
    keywords = sorted(keywords)
    search = re2.Set.SearchSet(re2_options(case_sensitive=False))
    for word in keywords:
        search.Add(word.encode())
    search.Compile()
    by_keyword = {word: [] for word in keywords}
    for number, rule in enumerate(rules):
        for word in dict.fromkeys(rule.keywords):
            by_keyword[word].append(number)
    return Rules(rules, search, list(by_keyword.values()))


def entropy_of(secret: bytes) -> float:
    """Shannon entropy, in bits per byte."""
    counts = Counter(secret).values()
    return -sum(count / len(secret) * math.log2(count / len(secret)) for count in counts)


def secrets_of(rule: Rule, text: bytes) -> list[tuple[int, int]]:
    """[start, end) of each secret that a rule finds, in bytes."""
    spans = []
    for match in rule.compiled.finditer(text):
        group = rule.group
        if group is None:
            group = next((n for n, value in enumerate(match.groups(), 1) if value), 0)
        start, end = match.span(group)
        secret = text[start:end]
        if not secret or (rule.entropy and entropy_of(secret) < rule.entropy):
            continue
        if rule.check and not rule.check(text, start, end):
            continue
        spans.append((start, end))
    return spans


def replace_secrets(text: bytes) -> tuple[bytes, Counter]:
    """(the text with placeholders, how many of each kind were replaced); UTF-8 stays UTF-8."""
    rules = all_rules()
    numbers = set()
    for word in rules.keywords.Match(text) or ():
        numbers.update(rules.by_keyword[word])
    spans = []
    for number in sorted(numbers):
        for start, end in secrets_of(rules.rules[number], text):
            spans.append((start, -end, number))
    counts, parts, at = Counter(), [], 0
    for start, end, number in sorted(spans):  # of overlapping secrets the first one counts, of equal starts the longest
        if start < at:
            continue
        rule = rules.rules[number]
        parts += [text[at:start], rule.placeholder.encode()]
        counts[rule.kind] += 1
        at = -end
    return (b"".join([*parts, text[at:]]), counts) if parts else (text, counts)


class SecretReplacer:
    """Replaces the secrets of documents, and counts them."""

    def __init__(self):
        self.documents, self.kinds = 0, Counter()

    def replace(self, document: dict, raw: bytes) -> bytes:
        """Replace the secrets in a document's text, whose UTF-8 is `raw`, by placeholders; returns its UTF-8 then."""
        cleaned, counts = replace_secrets(raw)
        if counts:
            document["text"] = cleaned.decode()
            self.documents += 1
            self.kinds += counts
        return cleaned

    def facts(self) -> dict:
        """For the manifest: in how many documents secrets were replaced, and how many of each kind."""
        return {"documents": self.documents, "replaced": dict(sorted(self.kinds.items()))}
