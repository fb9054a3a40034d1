"""Replace secrets and personal data in a text by placeholders of their type, and count them by kind.

    raw, counts = replace_secrets(b"key = 'ghp_...'")        # b"key = '<TOKEN>'", {"github-pat": 1}

One pass over the text finds which keywords it holds; only rules with one of these are run. What was found is never
logged or written: only kinds are counted.
"""

import math
from collections import Counter
from functools import cache
from typing import NamedTuple

import re2

from scripts.corpus.secrets.rules import Rule, detect_secrets_rules, options, own_rules


class Rules(NamedTuple):
    """All rules, and what finds those that may match."""

    rules: list[Rule]
    keywords: object  # a set of patterns, searched for at once
    by_keyword: list[list[int]]  # the rules of each


@cache
def all_rules() -> Rules:
    rules = [*own_rules(), *detect_secrets_rules()]
    keywords = sorted({word for rule in rules for word in rule.keywords})
    search = re2.Set.SearchSet(options(case_sensitive=False))
    for word in keywords:
        search.Add(word.encode())
    search.Compile()
    return Rules(rules, search, [[n for n, rule in enumerate(rules) if word in rule.keywords] for word in keywords])


def entropy_of(secret: bytes) -> float:
    """Bits per character, by Shannon."""
    counts = Counter(secret).values()
    return -sum(count / len(secret) * math.log2(count / len(secret)) for count in counts)


def secrets_of(rule: Rule, text: bytes) -> list[tuple[int, int]]:
    """[start, end) of what a rule finds."""
    found = []
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
        found.append((start, end))
    return found


def replace_secrets(text: bytes) -> tuple[bytes, Counter]:
    """(the text with placeholders, how many of each kind were replaced); UTF-8 stays UTF-8."""
    known = all_rules()
    numbers = {number for word in known.keywords.Match(text) or () for number in known.by_keyword[word]}
    found = [
        (start, -end, number) for number in sorted(numbers) for start, end in secrets_of(known.rules[number], text)
    ]
    counts, parts, at = Counter(), [], 0
    for start, end, number in sorted(found):  # of those that overlap the first, of those the longest
        if start < at:
            continue
        rule = known.rules[number]
        parts += [text[at:start], rule.placeholder.encode()]
        counts[rule.kind] += 1
        at = -end
    return (b"".join([*parts, text[at:]]), counts) if parts else (text, counts)


class Replaced:
    """Cleans documents, and counts what was replaced."""

    def __init__(self):
        self.documents, self.kinds = 0, Counter()

    def clean(self, raw: bytes, text: str) -> tuple[bytes, str]:
        """(UTF-8 bytes, text) of a document with placeholders."""
        cleaned, counts = replace_secrets(raw)
        if not counts:
            return raw, text
        self.documents += 1
        self.kinds += counts
        return cleaned, cleaned.decode()

    def facts(self) -> dict:
        """For the manifest: documents in which something was replaced, and how often each kind was."""
        return {"documents": self.documents, "replaced": dict(sorted(self.kinds.items()))}
