"""How a completion of code is scored: its closeness to what stands in the file, by the metrics of CrossCodeEval and two
more.
"""

import re

from rapidfuzz import fuzz

from scripts.corpus.instruct.grammars import error_bytes, grammar
from scripts.evaluation.code_tasks.regions import code_lines
from scripts.languages import completions

QUOTED = re.compile(r"""(["'`])(?:\\.|(?!\1).)*\1""")
IDENTIFIER = re.compile(r"\b[_a-zA-Z][_a-zA-Z0-9]*\b")


def completion_match(completion: str, answer: str) -> bool:
    """Whether both have the same lines, without indentation and empty lines."""
    return code_lines(completion) == code_lines(answer)


def edit_similarity(completion: str, answer: str) -> float:
    """rapidfuzz's ratio of both texts, 0 to 1, white space around them aside; a line may end in LF or CRLF."""
    both = [text.replace("\r\n", "\n").strip() for text in (completion, answer)]
    return fuzz.ratio(*both) / 100


def identifiers(text: str, language: str) -> set[str]:
    """The words of a text outside strings that are no keyword of the language; all words where it has no grammar."""
    if language not in completions():
        return set(IDENTIFIER.findall(QUOTED.sub("", text)))
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
