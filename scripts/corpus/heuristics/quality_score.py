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

Documentation and structure are 0 for a file that hardly parses, as they cannot be measured. A file in a
language without a grammar has neither them nor `parse`: its score is the mean of the two other parts by their weights.
"""

from collections import defaultdict

from tree_sitter import QueryCursor

from scripts.corpus.heuristics.paths import origin_of
from scripts.corpus.syntax.comments import BOILERPLATE
from scripts.corpus.syntax.grammars import MAX_ERROR_SHARE, error_bytes, grammar, parsed_as
from scripts.languages import syntaxes

WEIGHTS = {"parse": 0.3, "documentation": 0.2, "structure": 0.2, "repetition": 0.2, "origin": 0.1}
ENOUGH_COMMENTS, MOST_COMMENTS = 0.1, 0.6  # shares of the bytes
LINES_OF_DEFINITION = 40
ENOUGH_DIFFERENT = 0.8


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
    """The score and its parts, rounded to two digits; of a language without a grammar, by the parts that need none."""
    parts = syntax_of(text, path, language) if language in syntaxes() else {}
    parts |= {"repetition": repetition_of(text), "origin": origin_of(path)}
    score = 10 * sum(WEIGHTS[name] * part for name, part in parts.items()) / sum(WEIGHTS[name] for name in parts)
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
