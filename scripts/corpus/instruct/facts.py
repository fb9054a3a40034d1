"""Facts about a source file from its syntax tree: types with their methods, functions, imports, the first sentence.

Definitions inside a function's body are not listed; equal names (overloads, declaration and definition) are listed
once.
"""

from dataclasses import dataclass, field

from tree_sitter import Node

from scripts.corpus.instruct.grammars import first_sentence, literal
from scripts.languages import chats

KINDS = ("annotation", "interface", "record", "struct", "union", "trait", "class", "enum")
# Declarators of C that name a function; others, such as a pointer to a function, declare none.
C_NAMES = {"identifier", "field_identifier", "qualified_identifier", "destructor_name", "operator_name"}


@dataclass
class Type:
    """A class, struct, ... (`kind`); the kind is "type" if only its methods are in the file."""

    kind: str
    name: str
    methods: list[str] = field(default_factory=list)


@dataclass
class Facts:
    """The contents of a file, in the order of its text.

    Attributes:
        types: with their methods.
        functions: names of those that belong to no type.
        imports: names of modules, packages, crates or headers.
        sentence: the first sentence that documents the code, if it stands so in the text, or None.
    """

    types: list[Type] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)
    sentence: str | None = None


def text_of(node: Node) -> str:
    """The node's source on one line."""
    return " ".join(node.text.decode(errors="replace").split())


def base_name(node: Node) -> str:
    """A type's name without parameters: `Box<T>` is `Box`."""
    while inner := node.child_by_field_name("type") or node.child_by_field_name("name"):
        node = inner
    return text_of(node)


def function_name(node: Node) -> str | None:
    """The name of a function node, or None."""
    name = node.child_by_field_name("name")
    if name is None:
        declarator = node.child_by_field_name("declarator")
        if declarator is not None and declarator.type in C_NAMES:
            name = declarator
    return None if name is None else text_of(name)


def type_name(node: Node) -> str | None:
    """The name of a type node, or None."""
    name = node.child_by_field_name("name")
    if name is None and node.parent.type == "type_definition":  # C: typedef struct { ... } Name;
        name = node.parent.child_by_field_name("declarator")
    return None if name is None else text_of(name)


def type_kind(node: Node) -> str:
    """The kind of a type node: one of `KINDS`, or "type"."""
    # Go: type Name struct { ... }
    kind = node.child_by_field_name("type").type if node.type == "type_spec" else node.type
    for known in KINDS:
        if kind.startswith(known):
            return known
    return "type"


def import_name(node: Node) -> str:
    """`"fmt"` is fmt, `<stdio.h>` is stdio.h, `std::io::{self, Read}` is std::io."""
    name = text_of(node).strip('<>"`')
    for rest in ("::{", "::*", " as ", "{"):
        name = name.partition(rest)[0]
    return name


def receiver(node: Node) -> str | None:
    """The type of a Go method's receiver; None for other functions."""
    parameters = node.child_by_field_name("receiver")
    if parameters is None or not parameters.named_children:
        return None
    owner = parameters.named_children[0].child_by_field_name("type")
    if owner is not None and owner.type == "pointer_type":
        owner = owner.named_children[0]
    if owner is None:
        return None
    return base_name(owner)


class Outline:
    """The types and functions of a file, collected in one pass over its definitions with a stack of the open ones."""

    def __init__(self):
        self.types: dict[str, Type] = {}
        self.functions: list[str] = []
        self.open: list[tuple[int, Type | None]] = []  # (end, the type; None for the body of a function)

    def sweep(self, captures: dict[str, list[Node]]) -> None:
        """Add all definitions, outer ones first."""
        roles = ("function", "type", "owner", "scope")
        order = []
        for role in roles:
            order += [(node.start_byte, -node.end_byte, role, node) for node in captures.get(role, [])]
        for start, end, role, node in sorted(order, key=lambda item: item[:3]):
            while self.open and self.open[-1][0] <= start:
                self.open.pop()
            holder = None
            if not any(outer is None for _, outer in self.open):
                if role == "type":
                    holder = self.add_type(node)
                elif role == "owner":
                    holder = self.type_named(base_name(node.child_by_field_name("type")))
                elif role == "function":
                    self.add_function(node)
            self.open.append((-end, holder))

    def type_named(self, name: str) -> Type:
        return self.types.setdefault(name, Type("type", name))

    def add_type(self, node: Node) -> Type | None:
        name = type_name(node)
        if name is None:
            return None
        result = self.type_named(name)
        result.kind = type_kind(node)
        return result

    def add_function(self, node: Node) -> None:
        name = function_name(node)
        if name is None or (name == "_" and node.type == "function_declaration"):  # Go: a function without a name
            return
        scope, _, last = name.rpartition("::")
        scope = scope.partition("<")[0].rpartition("::")[2]
        if scope in self.types:  # C++: void Type<T>::method() {}
            holder, name = self.types[scope], last
        elif owner := receiver(node):  # Go: func (t *Type) method() {}
            holder = self.type_named(owner)
        else:
            holder = self.open[-1][1] if self.open else None
        names = holder.methods if holder else self.functions
        if name not in names:
            names.append(name)


def facts_from(captures: dict[str, list[Node]], text: str, language: str) -> Facts:
    """The facts of a file that is parsed."""
    outline, rules = Outline(), chats()[language]
    outline.sweep(captures)
    first = first_sentence(captures.get("doc", []), captures.get("comment", []), rules)
    return Facts(
        types=[item for item in outline.types.values() if item.kind != "type" or item.methods],
        functions=outline.functions,
        imports=list(dict.fromkeys(filter(None, map(import_name, captures.get("import", []))))),
        sentence=first if first and literal(first, text, rules.marks) else None,
    )
