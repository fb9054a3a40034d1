"""A quality score from 0 to 10 for a source file, and the partial scores that it is composed of.

    parts = quality_of(text, "src/a.py", "python")
    parts["score"]      # 10 * (0.3 parse + 0.2 documentation + 0.2 structure + 0.2 repetition + 0.1 origin)

Each part is from 0 to 1:
- parse: 1 without syntax errors, 0 where a tenth of the bytes or more do not parse.
- documentation: the share of bytes in comments and docstrings: 1 between 10% and 60%, falling to 0 at 0% and at 100%.
  Licence headers and instructions to tools do not count.
- structure: functions and types: 1 if there is one in every 40 lines or fewer.
- repetition: the share of distinct lines among those of four characters or more: 1 from 80% on.
- origin: 0 for vendored and generated files, 0.5 for tests, else 1; by the path patterns of GitHub's linguist.

Documentation and structure are 0 for a file that hardly parses, as they cannot be measured.
"""

import re
from collections import defaultdict
from functools import cache

from tree_sitter import QueryCursor

from scripts.corpus.syntax.comments import BOILERPLATE
from scripts.corpus.syntax.grammars import MAX_ERROR_SHARE, error_bytes, grammar, parsed_as
from scripts.languages import paths

WEIGHTS = {"parse": 0.3, "documentation": 0.2, "structure": 0.2, "repetition": 0.2, "origin": 0.1}
ENOUGH_COMMENTS, MOST_COMMENTS = 0.1, 0.6  # shares of the bytes
LINES_OF_DEFINITION = 40
ENOUGH_DIFFERENT = 0.8
# those patterns of linguist's vendor.yml and generated.rb that concern source code
VENDORED = re.compile(
    r"(^|/)(vendors?|vendored|third[-_]?party|3rd[-_]?party|extern(als?)?|deps|dependencies|Godeps|node_modules|bower_components"
    r"|site-packages|dist|\.yarn|Pods|Carthage|gradle/wrapper|cordova|inst/extdata|_vendor)/|(^|/)(configure|ltmain)\.\w+$",
    re.IGNORECASE,
)
# of any language; what is one language's own stands in its file
GENERATED = r"[._-](generated|autogen)\.\w+|\.g\.\w+|\.designer\.\w+|(^|/)(generated|gen|autogen|__generated__)/[^\n]*"
TEST_FOLDERS = r"(^|/)(tests?|testing|testdata|specs?|fixtures?|__tests__|e2e|benches|benchmarks?|examples?)/"
TESTS = r"_(test|spec|unittest|benchmark)s?\.\w+"


@cache
def generated_and_tests() -> tuple[re.Pattern, re.Pattern]:
    """What finds the paths of generated files, and those of tests, in any language."""
    generated = [GENERATED, *(rules.generated for rules in paths().values() if rules.generated)]
    tests = [TESTS, *(rules.tests for rules in paths().values() if rules.tests)]
    return (
        re.compile(f"({'|'.join(generated)})$", re.IGNORECASE),
        re.compile(f"{TEST_FOLDERS}|({'|'.join(tests)})$"),
    )


def origin_of(path: str) -> float:
    """0 for a vendored or generated file, 0.5 for a test or an example, else 1."""
    generated, tests = generated_and_tests()
    if VENDORED.search(path) or generated.search(path):
        return 0.0
    return 0.5 if tests.search(path) else 1.0


def repetition_of(text: str) -> float:
    """From 1, if 80% or more of the lines are distinct, to 0, if one line fills the file."""
    lines = [line for line in map(str.strip, text.split("\n")) if len(line) >= 4]
    if not lines:
        return 0.0
    different = len(set(lines)) - (len(lines) > 1)
    return min(1.0, different / len(lines) / ENOUGH_DIFFERENT)


def syntax_of(text: str, path: str, language: str) -> dict[str, float]:
    """The parts that need the syntax tree: parse, documentation, structure."""
    source, size = text.encode(), max(1, len(text.encode()))
    parser, query = grammar(parsed_as(path, language))
    root = parser.parse(source).root_node
    share = error_bytes(root) / size
    parts = {"parse": max(0.0, 1 - share / MAX_ERROR_SHARE), "documentation": 0.0, "structure": 0.0}
    if share > MAX_ERROR_SHARE:  # the query takes too long in large ERROR nodes, see `grammars`
        return parts
    captures = QueryCursor(query).captures(root)
    prose = [*captures.get("comment", ()), *captures.get("doc", ())]
    comment_bytes = 0
    for start, end in {(node.start_byte, node.end_byte) for node in prose}:
        if not BOILERPLATE.search(source[start:end].decode("utf-8", "replace")):
            comment_bytes += end - start
    comments = comment_bytes / size
    too_many = max(0.0, 1 - comments) / (1 - MOST_COMMENTS)
    parts["documentation"] = min(1.0, comments / ENOUGH_COMMENTS, too_many)
    definitions = sum(len(captures.get(name, ())) for name in ("function", "type"))
    parts["structure"] = min(1.0, definitions * LINES_OF_DEFINITION / (text.count("\n") + 1))
    return parts


def quality_of(text: str, path: str, language: str) -> dict[str, float]:
    """The score and its parts, rounded to two digits."""
    parts = {**syntax_of(text, path, language), "repetition": repetition_of(text), "origin": origin_of(path)}
    score = 10 * sum(weight * parts[name] for name, weight in WEIGHTS.items())
    return {name: round(value, 2) for name, value in {"score": score, **parts}.items()}


class QualitySummary:
    """Means of the kept documents, by language."""

    def __init__(self):
        self.counts, self.sums = defaultdict(int), defaultdict(lambda: defaultdict(float))

    def add(self, language: str, parts: dict[str, float]) -> None:
        """Count a document."""
        self.counts[language] += 1
        for name, value in parts.items():
            self.sums[language][name] += value

    def facts(self) -> dict:
        """For the manifest: documents and the mean of the score and each part, in all and by language."""
        count = sum(self.counts.values())
        score = sum(parts["score"] for parts in self.sums.values())
        languages = {}
        for language, documents in sorted(self.counts.items()):
            means = {name: round(value / documents, 2) for name, value in self.sums[language].items()}
            languages[language] = {"documents": documents, **means}
        return {"documents": count, "score": round(score / count, 2) if count else None, "languages": languages}
