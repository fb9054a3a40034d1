"""Python."""

import re
from pathlib import PurePosixPath

from scripts.languages import Chat, Completion, Imports, Language, Paths, Syntax

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


def absolute(name: str, path: PurePosixPath) -> tuple[str, ...]:
    """The parts of a module's name; dots at its beginning stand for folders of the importing file."""
    dots, folders = len(name) - len(name.lstrip(".")), path.parent.parts
    above = ()
    if dots:
        above = folders[: max(0, len(folders) - dots + 1)]
    return (*above, *filter(None, name.lstrip(".").split(".")))


def imported_names(match: re.Match, path: PurePosixPath) -> list[tuple[str, ...]]:
    """Each imported attribute, which may be a module, else the module."""
    module = absolute(match[1] or match[3] or "", path)
    attributes = [attribute.strip() for attribute in (match[2] or "").split(",")]
    return [(*module, attribute) for attribute in attributes if attribute] or [module]


def module_paths(name: str, path: str) -> list[str]:
    return ["/".join(absolute(name, PurePosixPath(path)))]


IMPORTS = Imports(
    re.compile(r"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]+\(?([\w, \t]*)|import[ \t]+([\w.]+))", re.MULTILINE),
    imported_names,
    module_paths,
    folder_files=("__init__",),
    short_name_depth=2,  # at the top, or in the one folder of the sources
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
