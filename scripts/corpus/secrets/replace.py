"""Replace secrets in a text by placeholders and addresses by such of nobody; count them by kind.

    replace_secrets(b"key = 'ghp_...'")        # text b"key = '<TOKEN>'", counts {"service-token": 1}

One pass over the text finds which keywords occur; only the rules with one of these keywords are run. The secrets
themselves are never logged or written: only their kinds are counted. A document that would no longer parse as it did
is dropped: a placeholder took the place of code.
"""

import math
import re
from bisect import bisect
from collections import Counter
from functools import cache
from typing import NamedTuple

import hyperscan

from scripts.corpus.heuristics.quality import Dropped
from scripts.corpus.secrets.personal import in_literal, personal_rules
from scripts.corpus.secrets.rules import Rule, secret_rules

COMMENT = re.compile(rb"(?:^|[\s;{}()])(?://|/\*|#|--)|^\s*(?:\*|%|;)")  # what begins a comment
# what may follow a backslash: `n`, `x41`, `u00e9`, `101`
ESCAPE = re.compile(rb"x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|[\s\S]|")


class Rules(NamedTuple):
    """All rules, and an index that tells which of them may match a text.

    Hyperscan finds the keywords: RE2 builds its tables while it searches, which for so many patterns takes three times
    as long as the search itself, and new texts need new ones.
    """

    rules: list[Rule]
    keywords: hyperscan.Database
    of_keyword: list[list[int]]  # by number of the keyword the numbers of its rules

    def that_may_match(self, text: bytes) -> list[int]:
        """The numbers of the rules with a keyword in a text."""
        numbers = set()
        self.keywords.scan(text, lambda keyword, *_: numbers.update(self.of_keyword[keyword]))
        return sorted(numbers)


@cache
def all_rules() -> Rules:
    rules = [*personal_rules(), *secret_rules()]
    by_keyword = {}
    for number, rule in enumerate(rules):
        for word in dict.fromkeys(rule.keywords):
            by_keyword.setdefault(word, []).append(number)
    keywords = hyperscan.Database()
    patterns = [word.encode() for word in by_keyword]
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH  # each keyword once a text
    keywords.compile(patterns, ids=list(range(len(patterns))), flags=flags)
    return Rules(rules, keywords, list(by_keyword.values()))


def entropy_of(secret: bytes) -> float:
    """Shannon entropy, in bits per byte."""
    counts = Counter(secret).values()
    return -sum(count / len(secret) * math.log2(count / len(secret)) for count in counts)


def odd_backslashes(text: bytes, end: int) -> bool:
    """Whether the text before `end` ends with a backslash that escapes what follows."""
    before = text[max(0, end - 16) : end]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1


def after_escape(text: bytes, start: int, end: int) -> int:
    """Where a secret begins that seems to begin with the letters of an escape: `me@x.org` in `\\nme@x.org`."""
    if odd_backslashes(text, start):
        return start + len(ESCAPE.match(text, start, end)[0])
    return start


def secrets_of(rule: Rule, text: bytes) -> list[tuple[int, int]]:
    """[start, end) of each secret that a rule finds, in bytes."""
    spans = []
    for match in rule.compiled.finditer(text):
        group = next((number for number, value in enumerate(match.groups(), 1) if value), 0)
        start, end = match.span(group)
        start = after_escape(text, start, end)
        secret = text[start:end]
        if not secret or odd_backslashes(text, end) or (rule.entropy and entropy_of(secret) < rule.entropy):
            continue
        if rule.check and not rule.check(text, start, end):
            continue
        spans.append((start, end))
    return spans


class Replaced(NamedTuple):
    """A text with its secrets replaced, how many of each kind, and where they stood in the text before."""

    text: bytes
    counts: Counter
    spans: list[tuple[int, int]]


def replace_secrets(text: bytes) -> Replaced:
    """Replace the secrets of a text; UTF-8 stays UTF-8. Not for two threads at a time."""
    rules, spans = all_rules(), []
    for number in rules.that_may_match(text):
        for start, end in secrets_of(rules.rules[number], text):
            spans.append((start, -end, number))
    counts, parts, at, replaced = Counter(), [], 0, []
    for start, end, number in sorted(spans):  # of overlapping secrets the first one counts, of equal starts the longest
        if start < at:
            continue
        rule = rules.rules[number]
        other = rule.other(text, start, -end) if rule.other else rule.placeholder.encode()
        parts += [text[at:start], other]
        replaced.append((start, -end))
        counts[rule.kind] += 1
        at = -end
    return Replaced(b"".join([*parts, text[at:]]), counts, replaced)


def docstring_marks(text: bytes) -> list[list[int]]:
    """Where the marks of docstrings end: those of double quotes, and those of single ones."""
    return [[match.end() for match in re.finditer(mark, text)] for mark in (b'"""', b"'''")]


def inert(text: bytes, start: int, end: int, marks: list[list[int]]) -> bool:
    """Whether a secret stands in a comment or inside a literal by what is left of it on its line, or in a docstring.
    `marks`: of the text, as `docstring_marks` gives them."""
    if b"\n" in text[start:end]:
        return False
    line = text[text.rfind(b"\n", 0, start) + 1 : start]
    if COMMENT.search(line) or in_literal(text, start):
        return True
    return any(bisect(ends, start) % 2 for ends in marks)


def broken(raw: bytes, cleaned: bytes, spans: list[tuple[int, int]], document: dict) -> bool:
    """Whether a document parses worse after its secrets were replaced; False where no grammar can tell.

    Where all secrets stand in comments and literals the document is not parsed: that would take most of the time.
    """
    marks = docstring_marks(raw)
    if all(inert(raw, start, end, marks) for start, end in spans):
        return False
    from scripts.corpus.instruct.grammars import faults, parsed_as  # imports grammars, which few documents need
    from scripts.languages import syntaxes

    if document["language"] not in syntaxes():
        return False
    language = parsed_as(document["path"], document["language"])
    left = faults(cleaned, language)
    return left > 0 and left > faults(raw, language)


class SecretReplacer:
    """Replaces the secrets of documents, and counts them."""

    def __init__(self):
        self.documents, self.kinds = 0, Counter()

    def replace(self, document: dict, raw: bytes) -> bytes:
        """Replace the secrets in a document's text, whose UTF-8 is `raw`; returns its UTF-8 then. Raises Dropped:
        `redaction`, where the document parsed before and does not then."""
        cleaned, counts, spans = replace_secrets(raw)
        if counts:
            if broken(raw, cleaned, spans, document):
                raise Dropped("redaction", f"does not parse without {', '.join(sorted(counts))}")
            document["text"] = cleaned.decode()
            self.documents += 1
            self.kinds += counts
        return cleaned

    def facts(self) -> dict:
        """For the manifest: in how many documents secrets were replaced, and how many of each kind."""
        return {"documents": self.documents, "replaced": dict(sorted(self.kinds.items()))}
