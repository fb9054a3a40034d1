"""Rust."""

from scripts.languages import Chat, Completion, Language, Syntax

LANGUAGE = Language("Rust", (".rs",), "//", aliases=("rs",))


def grammar() -> object:
    import tree_sitter_rust

    return tree_sitter_rust.language()


SYNTAX = Syntax(
    grammar,
    """
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
)


CHAT = Chat(
    imported=("路径", "path", "paths"),
    comments=frozenset({"line_comment", "block_comment"}),
    declaration_parents=frozenset({"source_file", "declaration_list"}),
    holders=frozenset({"trait_item"}),
    between=frozenset({"attribute_item"}),
)
NAMES_TOO = "block default expr ident item lifetime literal meta pat pat_param path raw stmt tt ty union vis"
COMPLETION = Completion(
    functions=frozenset({"function_item"}), bodies=frozenset({"block"}), names_too=frozenset(NAMES_TOO.split())
)
