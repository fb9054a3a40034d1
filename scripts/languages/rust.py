"""Rust."""

import re
from pathlib import PurePosixPath

from scripts.languages import Chat, Completion, Imports, Language, Syntax

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
OWN = {"crate", "self", "super"}  # names of the repository itself


def imported_names(match: re.Match, path: PurePosixPath) -> list[tuple[str, ...]]:
    return [tuple(part for part in match[1].split("::") if part and part not in OWN)]


def module_paths(name: str, path: str) -> list[str]:
    """The name's path and those above it: its last parts may be defined in a file."""
    parts = [part.strip() for part in name.split("{")[0].split("::")]
    parts = [part for part in parts if part and part != "*" and part not in OWN]
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)]


IMPORTS = Imports(
    re.compile(r"^[ \t]*(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:use|mod)[ \t]+([\w:]+)", re.MULTILINE),
    imported_names,
    module_paths,
    folder_files=("mod", "lib"),
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
