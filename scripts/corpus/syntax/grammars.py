"""Parse files with tree-sitter, and find what they define and import by the query of their language.

Queries run in C and without recursion, so deep nesting is safe. Width is not: the cursor is quadratic in the children
of a node, and only ERROR nodes have thousands of them, so `parse` rejects files with large ERROR nodes first.
"""

from functools import cache

from tree_sitter import Language, Node, Parser, Query, QueryCursor

from scripts.languages import syntax

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
