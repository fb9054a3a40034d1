"""Tree-sitter grammars, and a query per language that finds what a file defines and imports.

Queries run in C and without recursion, so deep nesting is safe. Width is not: the cursor is quadratic in the children
of a node, and only ERROR nodes have thousands of them, so `parse` rejects files with large ERROR nodes first.
"""

from functools import cache

import tree_sitter_c
import tree_sitter_cpp
import tree_sitter_go
import tree_sitter_java
import tree_sitter_python
import tree_sitter_rust
from tree_sitter import Language, Node, Parser, Query, QueryCursor

GRAMMARS = {
    "python": tree_sitter_python,
    "java": tree_sitter_java,
    "go": tree_sitter_go,
    "rust": tree_sitter_rust,
    "c": tree_sitter_c,
    "cpp": tree_sitter_cpp,
}
# Captures: @function, @type and @owner (Rust's impl) are definitions, @scope is another body with local definitions,
# @import is the name of an import, @comment and @doc hold prose.
C = """
(function_declarator) @function
(function_definition body: (_) @scope)
(struct_specifier body: (_)) @type
(union_specifier body: (_)) @type
(enum_specifier body: (_)) @type
(preproc_include path: (_) @import)
(comment) @comment
"""
QUERIES = {
    "python": """
        (function_definition) @function
        (class_definition) @type
        (import_statement name: (dotted_name) @import)
        (import_statement name: (aliased_import name: (dotted_name) @import))
        (import_from_statement module_name: (_) @import)
        (comment) @comment
        (module . (comment)* . (expression_statement . (string) @doc .))
        (class_definition body: (block . (expression_statement . (string) @doc .)))
        (function_definition body: (block . (expression_statement . (string) @doc .)))
    """,
    "java": """
        (method_declaration) @function
        (constructor_declaration) @function
        (compact_constructor_declaration) @function
        (object_creation_expression (class_body) @scope)
        (class_declaration) @type
        (interface_declaration) @type
        (enum_declaration) @type
        (record_declaration) @type
        (annotation_type_declaration) @type
        (import_declaration [(scoped_identifier) (identifier)] @import)
        (line_comment) @comment
        (block_comment) @comment
    """,
    "go": """
        (function_declaration) @function
        (method_declaration) @function
        (func_literal) @scope
        (type_spec) @type
        (method_elem) @function
        (import_spec path: (_) @import)
        (comment) @comment
    """,
    "rust": """
        (function_item) @function
        (function_signature_item) @function
        (closure_expression) @scope
        (impl_item) @owner
        (struct_item) @type
        (enum_item) @type
        (union_item) @type
        (trait_item) @type
        (use_declaration argument: (_) @import)
        (extern_crate_declaration name: (_) @import)
        (line_comment) @comment
        (block_comment) @comment
    """,
    "c": C,
    "cpp": C + "(class_specifier body: (_)) @type (lambda_expression body: (_) @scope)",
}
# Files with a larger share of bytes in ERROR nodes are rejected. Not 0: macros cause errors in half of all C++ and
# most C files, but in few of their bytes.
MAX_ERROR_SHARE = 0.1


@cache
def grammar(language: str) -> tuple[Parser, Query]:
    """The parser and the query of a language."""
    tree_sitter_language = Language(GRAMMARS[language].language())
    return Parser(tree_sitter_language), Query(tree_sitter_language, QUERIES[language])


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


def tree(text: str, language: str) -> Node | None:
    """The root of the syntax tree; None if more than `MAX_ERROR_SHARE` of the text does not parse."""
    source = text.encode()
    root = grammar(language)[0].parse(source).root_node
    return None if error_bytes(root) > MAX_ERROR_SHARE * len(source) else root


def parse(text: str, path: str, language: str) -> dict[str, list[Node]] | None:
    """The captures of the language's query, each in the order of the text; None if too much of it does not parse.

    Headers (`.h`) are parsed as C++, which contains nearly all of C.
    """
    language = "cpp" if path.endswith(".h") else language
    root = tree(text, language)
    if root is None:
        return None
    captures = QueryCursor(grammar(language)[1]).captures(root)
    return {name: sorted(nodes, key=lambda node: node.start_byte) for name, nodes in captures.items()}
