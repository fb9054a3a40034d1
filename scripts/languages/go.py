"""Go."""

from scripts.languages import Chat, Completion, Language, Paths, Syntax

LANGUAGE = Language("Go", (".go",), "//", aliases=("golang",))
PATHS = Paths(generated=r"\.pb(\.gw|\.validate)?\.go|(^|/)zz_generated\.[\w.]+\.go")


def grammar() -> object:
    import tree_sitter_go

    return tree_sitter_go.language()


SYNTAX = Syntax(
    grammar,
    """
    (function_declaration) @function
    (method_declaration) @function
    (func_literal) @scope
    (type_spec) @type
    (method_elem) @function
    (import_spec path: (_) @import)
    (comment) @comment
    """,
)


CHAT = Chat(
    imported=("包", "package", "packages"),
    comments=frozenset({"comment"}),
    declaration_parents=frozenset({"source_file"}),
)
COMPLETION = Completion(
    functions=frozenset({"function_declaration", "method_declaration"}), bodies=frozenset({"block"})
)
