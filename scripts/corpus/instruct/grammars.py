"""Parse files with tree-sitter: what they define and import, and their first sentence of prose.

Queries run in C and without recursion, so deep nesting is safe. Width is not: the cursor is quadratic in the children
of a node, and only ERROR nodes have thousands of them, so `parse` rejects files with large ERROR nodes first.
"""

import re
from collections.abc import Iterator
from functools import cache

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from scripts.languages import Chat, syntax

# Files with a larger share of bytes in ERROR nodes are rejected. Not 0: macros cause errors in half of all C++ and
# most C files, but in few of their bytes.
MAX_ERROR_SHARE = 0.1


@cache
def grammar(language: str) -> tuple[Parser, Query]:
    """The parser and the query of a language. Raises UserError: there is no grammar of it."""
    rules = syntax(language)
    tree_sitter_language = Language(rules.grammar())
    return Parser(tree_sitter_language), Query(tree_sitter_language, rules.query)


def parsed_as(path: str, language: str) -> str:
    """The language whose grammar parses a file: C's headers (`.h`) are parsed as C++, which has nearly all of C."""
    for extension, other in syntax(language).parsed_as:
        if path.endswith(extension):
            return other
    return language


def error_bytes(root: Node) -> int:
    """How many bytes lie in ERROR nodes."""
    total, nodes = 0, [root]
    while nodes:
        node = nodes.pop()
        if node.is_error:
            total += node.end_byte - node.start_byte
        elif node.has_error:
            nodes += node.children
    return total


def faults(source: bytes, language: str) -> int:
    """How many nodes of a source's syntax tree are errors or missing."""
    count, nodes = 0, [grammar(language)[0].parse(source).root_node]
    while nodes:
        node = nodes.pop()
        count += node.is_error or node.is_missing
        if node.has_error:
            nodes += node.children
    return count


def tree(text: str, language: str) -> Node | None:
    """The root of the syntax tree; None if more than `MAX_ERROR_SHARE` of the text does not parse."""
    source = text.encode()
    root = grammar(language)[0].parse(source).root_node
    if error_bytes(root) > MAX_ERROR_SHARE * len(source):
        return None
    return root


def parse(text: str, path: str, language: str) -> dict[str, list[Node]] | None:
    """The captures of the language's query, each in the order of the text; None if too much of it does not parse."""
    language = parsed_as(path, language)
    root = tree(text, language)
    if root is None:
        return None
    captures = QueryCursor(grammar(language)[1]).captures(root)
    return {name: sorted(nodes, key=lambda node: node.start_byte) for name, nodes in captures.items()}


def statements(body: Node, language: str, of_function: bool) -> list[Node]:
    """The statements of a body, without comments and a function's docstring."""
    nodes = body.named_children
    if len(nodes) == 1 and nodes[0].type == "statement_list":  # in Go between a block and its statements
        nodes = nodes[0].named_children
    nodes = [node for node in nodes if "comment" not in node.type]
    if of_function and syntax(language).docstrings and nodes and nodes[0].type == "expression_statement":
        child = nodes[0].named_children
        if len(child) == 1 and child[0].type == "string":
            return nodes[1:]
    return nodes


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


def about_declarations(node: Node, parents: frozenset[str]) -> bool:
    """Whether a comment is among declarations and on a line of its own; after code it describes that line alone."""
    before = node.prev_sibling
    own_line = before is None or before.end_point.row < node.start_point.row or before.end_point.column == 0
    return own_line and node.parent.type in parents


def blocks(comments: list[Node], parents: frozenset[str]) -> Iterator[str]:
    """The texts of comments among declarations; line comments directly below each other are joined."""
    block, below = [], (-1, -1)
    for node in comments:
        if not about_declarations(node, parents):
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


def first_sentence(docstrings: list[Node], comments: list[Node], rules: Chat) -> str | None:
    """The first sentence of the docstrings, else of the comments, in the order of the text."""
    for node in docstrings:
        first = sentence(docstring(node))
        if first:
            return first
    for block in blocks(comments, rules.declaration_parents):
        first = sentence(rules.marks.sub("", block))
        if first:
            return first
    return None


def one_line(text: str, marks: re.Pattern) -> str:
    """A text without line ends and comment marks."""
    return " ".join(marks.sub("", text).split())


def literal(first: str, text: str, marks: re.Pattern) -> bool:
    """Whether a sentence stands in a text as it is, but for line ends and comment marks at their beginning."""
    # the whole text is rarely worth it: a word may be nowhere, or the lines from where the sentence begins are enough
    if not all(word in text for word in first.split()):
        return False
    at = max(text.find(first[:24]), 0)
    lines = text[text.rfind("\n", 0, at) + 1 : text.find("\n", at + 2 * len(first)) + 1]
    return first in one_line(lines, marks) or first in one_line(text, marks)
