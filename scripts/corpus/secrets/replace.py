"""Replace secrets in a text by placeholders, personal numbers and addresses by such of nobody; count them by kind.

    replace_secrets(b"key = 'ghp_...'")        # text b"key = '<TOKEN>'", counts {"github-pat": 1}

Two passes over the text find which keywords occur; only the rules with one of these keywords are run. The secrets
themselves are never logged or written: only their kinds are counted. A document that would no longer parse as it did
is dropped: a placeholder took the place of code.
"""

import json
import math
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import re2
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector

from scripts.corpus.heuristics.quality import Dropped
from scripts.corpus.secrets.personal import in_literal, personal_rules
from scripts.corpus.secrets.rules import Rule, own_rules, re2_options

# For each detector of detect-secrets the keywords of which at least one occurs in every match. Left out are detectors
# that find only a header (private keys), any URL with a password, any address or any literal of 44 or 48 characters
# (IBM), any number, colon and 35 letters (Telegram), and one whose match
# includes the name before the key (Azure). Short ones are faster: their automaton has fewer states.
KEYWORDS = {
    "Artifactory Credentials": ["akc", r"ap[\da-f][a-z0-9]{8}"],
    "AWS Access Key": ["a3t", "abia", "acca", "akia", "asia", "aws"],
    "Cloudant Credentials": [r"cl(?:ou(?:dant)?)?[_-]?(?:api)?[_-]?(?:key|pw|pass|token)", r"cloudant\.com"],
    "Discord Bot Token": [r"\.[\w-]{6}\.[\w-]{27}"],
    "GitHub Token": ["gh[opsur]_"],
    "GitLab Token": ["gl[a-z]{2,5}-", "gr1348941"],
    "JSON Web Token": ["eyj"],
    "Mailchimp Access Key": [r"-us\d"],
    "NPM tokens": [":_authtoken="],
    "OpenAI Token": ["t3blbkfj"],
    "PyPI Token": ["pypi-age"],
    "SendGrid API Key": [r"sg\.[\w-]{22}\."],
    "Slack Token": ["xox[abprs]-", r"hooks\.slack\.com"],
    "SoftLayer Credentials": ["(?:softlayer|sl)[_-]?(?:api)?[_-]?(?:key|pw|pass|token)", r"api.softlayer\.com"],
    "Square OAuth Secret": ["sq0csp-"],
    "Stripe Access Key": ["[rs]k_live_"],
    "Twilio API Key": ["(?:ac|sk)[a-z0-9]{32}"],
}
# detectors whose first group is the secret; for the others it is the whole match
ONE_GROUP = {"AWS Access Key", "Cloudant Credentials", "NPM tokens", "SoftLayer Credentials"}
ENTROPY = 3.0  # the least of a match (bits per byte); names, and digests of zeros only, have less


def without_lookaround(pattern: str) -> str:
    """A pattern of detect-secrets in RE2's syntax, which has no lookaround."""
    for old, new in (
        (r"(?:(?<=\W)|(?<=^))", r"(?:\W|^)"),  # the secret is a group behind it
        (r"(?!\w)", r"\b"),
        ("{50,1024}", "{50,1000}"),
    ):
        pattern = pattern.replace(old, new)
    return pattern


def detect_secrets_rules() -> list[Rule]:
    """The rules of detect-secrets that are named in KEYWORDS."""
    rules = []
    for name, detector in sorted(get_mapping_from_secret_type_to_class().items()):
        if name not in KEYWORDS or not issubclass(detector, RegexBasedDetector):
            continue
        kind = name.lower().replace(" ", "-")
        placeholder = "<API_KEY>"
        if "token" in kind or "oauth" in kind:
            placeholder = "<TOKEN>"
        for regex in detector().denylist:
            pattern = ("(?i)" if regex.flags & re.IGNORECASE else "") + without_lookaround(regex.pattern)
            group = 0
            if name in ONE_GROUP and regex.groups:
                group = 1
            rules.append(Rule(kind, placeholder, pattern, KEYWORDS[name], ENTROPY, group))
    return rules


def gitleaks_rules() -> list[Rule]:
    """The rules of gitleaks that gitleaks.json holds, with its licence."""
    data = json.loads(Path(__file__).with_name("gitleaks.json").read_text(encoding="utf-8"))
    rules = []
    for row in data["rules"]:
        placeholder = "<API_KEY>"
        if "token" in row["id"] or "oauth" in row["id"]:
            placeholder = "<TOKEN>"
        keywords = [re.escape(word) for word in row["keywords"]]
        rules.append(Rule(row["id"], placeholder, row["pattern"], keywords, row["entropy"], row.get("group")))
    return rules


COMMENT = re.compile(rb"(?:^|[\s;{}()])(?://|/\*|#|--)|^\s*(?:\*|%|;)")  # what begins a comment
COUNTED = re.compile(r"\d,?\d*\}")
# what may follow a backslash: `n`, `x41`, `u00e9`, `101`
ESCAPE = re.compile(rb"x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|[\s\S]|")


class Rules(NamedTuple):
    """All rules, and an index that tells which of them may match a text."""

    rules: list[Rule]
    # pairs: a re2.Set of keywords, searched for in one pass, and by number of the keyword the numbers of its rules
    searches: list[tuple[object, list[list[int]]]]


@cache
def all_rules() -> Rules:
    rules = [*personal_rules(), *own_rules(), *detect_secrets_rules(), *gitleaks_rules()]
    by_keyword = {}
    for number, rule in enumerate(rules):
        for word in dict.fromkeys(rule.keywords):
            by_keyword.setdefault(word, []).append(number)
    # Words that count repeats have many states; in one automaton with the others it would be slower than both.
    counted = {word for word in by_keyword if COUNTED.search(word)}
    searches = []
    for words in (sorted(counted), sorted(by_keyword.keys() - counted)):
        search = re2.Set.SearchSet(re2_options(case_sensitive=False))
        for word in words:
            search.Add(word.encode())
        search.Compile()
        searches.append((search, [by_keyword[word] for word in words]))
    return Rules(rules, searches)


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
        group = rule.group
        if group is None:
            group = next((n for n, value in enumerate(match.groups(), 1) if value), 0)
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
    """Replace the secrets of a text; UTF-8 stays UTF-8."""
    rules = all_rules()
    numbers = set()
    for search, by_keyword in rules.searches:
        for word in search.Match(text) or ():
            numbers.update(by_keyword[word])
    spans = []
    for number in sorted(numbers):
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


def inert(text: bytes, start: int, end: int) -> bool:
    """Whether a secret stands in a comment or inside a literal by what is left of it on its line."""
    line = text[text.rfind(b"\n", 0, start) + 1 : start]
    return b"\n" not in text[start:end] and (bool(COMMENT.search(line)) or in_literal(text, start))


def broken(raw: bytes, cleaned: bytes, spans: list[tuple[int, int]], document: dict) -> bool:
    """Whether a document parses worse after its secrets were replaced; False where no grammar can tell.

    Where all secrets stand in comments and literals the document is not parsed: that would take most of the time.
    """
    if all(inert(raw, start, end) for start, end in spans):
        return False
    from scripts.corpus.instruct.grammars import faults, parsed_as  # imports grammars, which few documents need
    from scripts.languages import syntaxes

    if document["language"] not in syntaxes():
        return False
    language = parsed_as(document["path"], document["language"])
    return faults(cleaned, language) > faults(raw, language)


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
