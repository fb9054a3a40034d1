"""The first sentence of prose in a file's docstrings and comments: its author's summary of the code."""

import re
from collections.abc import Iterator

from tree_sitter import Node

MAX_SENTENCE = 200  # characters; a longer sentence is no summary
# Not about the code: licences, instructions to tools, editor modes, markers of a generated file.
BOILERPLATE = re.compile(
    r"copyright|licen[cs]e|spdx|all rights reserved|permission is hereby|redistribution|without warrant|as is\b"
    r"|-\*-|coding[:=]|^\s*(vim?|ex|go|nolint|eslint|pylint|mypy|ruff|noqa|type|fmt|clang-format)\s*:|^\+build"
    r"|(?-i:TODO|FIXME|XXX)",
    re.IGNORECASE,
)
# A text in ASCII without any of these has boilerplate only at its beginning; to look for them is ten times as fast.
BOILERPLATE_PARTS = (
    *("copyright", "licen", "spdx", "all rights reserved", "permission is hereby", "redistribution", "without warrant"),
    *("as is", "-*-", "coding", "todo", "fixme", "xxx"),
)
# Comments for tools, which lie among the documentation of a declaration but are no part of it.
INSTRUCTION = re.compile(r"\W*(?:NOLINT|NOSONAR|CHECKSTYLE|noinspection|editor-fold|clang-format (?:on|off))")
MARKS = re.compile(r"^[ \t]*(?:/\*[*!]*<?|\*+/|\*+(?=\s|$)|//+!?<?|#+!?)[ \t]?|\*+/[ \t]*$", re.MULTILINE)
MARKUP = re.compile(r"</?[a-z][^<>]{0,40}>|\{@\w+ ([^{}]*)\}|^[ \t]*[-=*#~_/+]{3,}.*$", re.IGNORECASE | re.MULTILINE)
PARAGRAPH_END = re.compile(r"\n\s*\n|\n\s*(?=[@:\\]\w)")
SECTION = re.compile(
    r"\s*(?:args|arguments|parameters|returns?|raises|yields|examples?|notes?|see also)\b:?\s*(?:\n|$)|\s*[@:\\]\w",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)\s|(?<=[。！？])")
WORD = re.compile(r"[^\W\d_]{2,}")
CJK = re.compile(r"[\u3400-\u9fff]")
CODE = re.compile(r"[;{}=,:(]\s*$|^\s*[@$%<>{(\[\\:|]|>>>|\w+\(\)\s*$")
# Parents whose comments describe declarations; comments elsewhere describe a statement or an item of a list.
DECLARATION_PARENTS = {
    "module",
    "program",
    "source_file",
    "translation_unit",
    "declaration_list",
    "preproc_if",
    "preproc_ifdef",
}


def about_declarations(node: Node) -> bool:
    """Whether a comment is among declarations and on a line of its own; after code it describes that line alone."""
    before = node.prev_sibling
    own_line = before is None or before.end_point.row < node.start_point.row or before.end_point.column == 0
    return own_line and node.parent.type in DECLARATION_PARENTS


def blocks(comments: list[Node]) -> Iterator[str]:
    """The texts of comments; line comments directly below each other are joined."""
    block, below = [], (-1, -1)
    for node in comments:
        if not about_declarations(node):
            continue
        text, place = node.text.decode(errors="replace").rstrip(), node.start_point
        if INSTRUCTION.match(text):
            continue
        if (block and (place.row, place.column) != below) or text.startswith("/*"):
            yield "\n".join(block)
            block = []
        block.append(text)
        below = (place.row + 1 + text.count("\n"), place.column)
    yield "\n".join(block)


def is_boilerplate(prose: str) -> bool:
    """Whether a text is not about the code."""
    low = prose.lower() if prose.isascii() else None
    if low is not None and not any(part in low for part in BOILERPLATE_PARTS):
        return BOILERPLATE.match(prose) is not None
    return BOILERPLATE.search(prose) is not None


def sentence(prose: str) -> str | None:
    """The first sentence of the first paragraph that reads like prose, or None."""
    if is_boilerplate(prose):
        return None
    for paragraph in PARAGRAPH_END.split(MARKUP.sub(r"\1", prose)):
        if SECTION.match(paragraph):
            return None
        first = SENTENCE_END.split(" ".join(paragraph.split()), maxsplit=1)[0].strip()
        prose_like = len(WORD.findall(first)) >= 3 or len(CJK.findall(first)) >= 4
        if prose_like and len(first) <= MAX_SENTENCE and not CODE.search(first):
            return first
    return None


def docstring(node: Node) -> str:
    """The text of a Python string without its prefix and quotes."""
    return "".join(child.text.decode(errors="replace") for child in node.children if child.type == "string_content")


def first_sentence(docstrings: list[Node], comments: list[Node]) -> str | None:
    """The first sentence of the docstrings, else of the comments, in the order of the text."""
    for node in docstrings:
        if first := sentence(docstring(node)):
            return first
    return next((first for block in blocks(comments) if (first := sentence(MARKS.sub("", block)))), None)


def one_line(text: str) -> str:
    """A text without line ends and comment marks."""
    return " ".join(MARKS.sub("", text).split())


def literal(first: str, text: str) -> bool:
    """Whether a sentence stands in a text as it is, but for line ends and comment marks at their beginning."""
    # the whole text is rarely worth it: a word may be nowhere, or the lines from where the sentence begins are enough
    if not all(word in text for word in first.split()):
        return False
    at = max(text.find(first[:24]), 0)
    lines = text[text.rfind("\n", 0, at) + 1 : text.find("\n", at + 2 * len(first)) + 1]
    return first in one_line(lines) or first in one_line(text)
