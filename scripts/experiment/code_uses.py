"""What a statement uses, for fingerprints: names, imports, attributes, texts.

uses_of(statement).names      # {("files", ("write_json",)), ("path", ())}
"""

import ast
import re
from functools import cache
from typing import NamedTuple

from scripts.experiment.code_units import imports_of, last_name

# what may take any attribute of an object: as a name, and as an attribute, which `eval` of a model is not
DYNAMIC = ("getattr", "vars", "dir", "attrgetter", "methodcaller")
TAKING = ("__dict__", "__getattribute__", "attrgetter", "methodcaller")
LISTING = "constants_in"  # takes one constant of each module of a package: of scripts/common/discovery.py
WHOLE = ("globals", "exec", "eval", "vars", "__import__", "import_module")  # calls that can reach anything


class Uses(NamedTuple):
    """What a statement uses.

    Attributes:
        imports: of its own import statements, as `imports_of` gives them.
        loaded: the project modules that these load.
        names: (name, the attributes that are taken of it: `a.b.c` gives `b`, `c`).
        texts: its strings.
        listed: (package, name) of each call of `constants_in`, None for the package it is in.
        attributes: names that it may take of any object; `*` where it may take any.
    """

    imports: dict[str, tuple[str, str | None]]
    loaded: list[str]
    names: set[tuple[str, tuple[str, ...]]]
    texts: set[str]
    listed: set[tuple[str | None, str]]
    attributes: set[str]


@cache
def uses_of(statement: ast.AST) -> Uses:
    """What a statement uses. Many rules reach the same statements, so each is read once."""
    uses, names, attributes = Uses({}, [], set(), set(), set(), set()), [], {}
    named, understood = set(), set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and last_name(node.func) == LISTING and isinstance(node.args[1], ast.Constant):
            package, name = node.args
            uses.listed.add((getattr(package, "value", None), name.value))
            understood.update((package, name))
    for node in ast.walk(statement):
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound, loaded = imports_of(node)
            uses.imports.update(bound)
            uses.loaded.extend(loaded)
        elif isinstance(node, ast.Attribute):
            attributes[node.value] = node
            uses.attributes.add(node.attr)
        elif isinstance(node, ast.Name):
            names.append(node)
        elif isinstance(node, ast.MatchClass):
            uses.attributes.update(node.kwd_attrs)
        elif isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[1], ast.Constant):
            named.add(node.func)  # if it is getattr, the name is among the texts
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in understood:
            uses.texts.add(node.value)
            uses.attributes.update(re.findall(r"\w+", node.value))
    for name in names:
        chain, node = [], name
        while node := attributes.get(node):
            chain.append(node.attr)
        uses.names.add((name.id, tuple(chain)))
    free = {name.id for name in names if name.id != "getattr" or name not in named}
    if free & {*DYNAMIC, *WHOLE} or {node.attr for node in attributes.values()} & {*TAKING}:
        uses.attributes.add("*")
    return uses
