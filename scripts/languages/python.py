"""Python."""

import re

from scripts.languages import Chat, Completion, Language, Paths, Syntax

LANGUAGE = Language("Python", (".py", ".pyi"), "#", aliases=("py",))
PATHS = Paths(generated=r"_pb2(_grpc)?\.pyi?|(^|/)(moc|ui|qrc)_\w+\.py")


def grammar() -> object:
    import tree_sitter_python

    return tree_sitter_python.language()


SYNTAX = Syntax(
    grammar,
    """
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
    docstrings=True,
)


CHAT = Chat(
    imported=("模块", "module", "modules"),
    comments=frozenset({"comment"}),
    declaration_parents=frozenset({"module"}),
    holders=frozenset({"class_definition"}),
)
COMPLETION = Completion(
    functions=frozenset({"function_definition"}),
    bodies=frozenset({"block"}),
    braces=None,
    strings=re.compile(r'"(?:\\.|[^"\\])*"|' r"'(?:\\.|[^'\\])*'", re.DOTALL),
    names_too=frozenset({"_", "case", "exec", "match", "print", "type"}),
)
