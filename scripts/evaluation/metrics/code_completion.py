"""How close a completion of code is to what stands in the file: the metrics of CrossCodeEval, and two more.

    edit_similarity("return a+b", "return a + b")     # 0.91

- `completion_match`: the same lines, without indentation and empty lines;
- `edit_similarity`: rapidfuzz's `ratio` of both texts, 0 to 1;
- `identifier_f1`: F1 of the sets of identifiers, without those in strings, and without keywords;
- `parses`: the file with the completion in place has no more bytes in syntax errors than the file as it is; of
  completions that are not blank, as nothing at all leaves most files without an error;
- `answer_bits_per_byte`: how many bits the model needs per byte of the file's own text, the completion aside.

The first three are defined by Ding et al. 2023, CrossCodeEval (arXiv 2310.11248), section 3, and their code.
"""

import re

from rapidfuzz import fuzz

from scripts.corpus.syntax.grammars import error_bytes, grammar
from scripts.evaluation.code_tasks.occurrences import code_lines
from scripts.languages import completions

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
