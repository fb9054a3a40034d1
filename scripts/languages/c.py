"""C. Headers (`.h`) may be C++, and are parsed as C++, which contains nearly all of C."""

from scripts.languages import Chat, Completion, Language, Syntax

LANGUAGE = Language("C", (".c",), "//", by_content=(".h",))


def grammar() -> object:
    import tree_sitter_c

    return tree_sitter_c.language()


QUERY = """
    (function_declarator) @function
    (function_definition body: (_) @scope)
    (struct_specifier body: (_)) @type
    (union_specifier body: (_)) @type
    (enum_specifier body: (_)) @type
    (preproc_include path: (_) @import)
    (comment) @comment
"""
SYNTAX = Syntax(grammar, QUERY, parsed_as=((".h", "cpp"),))


IMPORTED = ("头文件", "header", "headers")
DECLARATION_PARENTS = frozenset({"translation_unit", "declaration_list", "preproc_if", "preproc_ifdef"})
CHAT = Chat(
    IMPORTED,
    comments=frozenset({"comment"}),
    declaration_parents=DECLARATION_PARENTS,
    holders=frozenset({"struct_specifier"}),
)
FUNCTIONS, BODIES = frozenset({"function_definition"}), frozenset({"compound_statement"})
COMPLETION = Completion(FUNCTIONS, BODIES, names_too=frozenset({"defined", "noreturn"}))
