"""Go."""

import re
from pathlib import PurePosixPath

from scripts.languages import Chat, Completion, Imports, Language, Paths, Syntax

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


def imported_names(match: re.Match, path: PurePosixPath) -> list[tuple[str, ...]]:
    return [tuple(match[1].split("/"))]


def package_paths(name: str, path: str) -> list[str]:
    """The endings of a package's name: what stands before the repository's own folders is where it is published."""
    parts = name.strip('"`').split("/")
    return ["/".join(parts[start:]) for start in range(len(parts))]


IMPORTS = Imports(
    re.compile(r"^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?\"([^\"\s]+)\"[ \t]*$", re.MULTILINE),
    imported_names,
    package_paths,
    unit="folder",
)
CHAT = Chat(
    imported=("包", "package", "packages"),
    comments=frozenset({"comment"}),
    declaration_parents=frozenset({"source_file"}),
)
COMPLETION = Completion(
    functions=frozenset({"function_declaration", "method_declaration"}), bodies=frozenset({"block"})
)
