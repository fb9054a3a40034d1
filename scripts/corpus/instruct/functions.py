"""Extract the documented functions of a file: documentation, signature and body.

    functions_of(text, "src/area.py", "python")[0].documentation     # The area of a circle.

Documentation is the docstring in Python, and in the other languages the comment that ends on the line above. Left out
are functions that do not parse, that have fewer lines than `MIN_LINES` or more than `MAX_LINES`, or whose documentation
is not prose or too short, functions in functions, whose variables they use, and tests, which mean little without their
fixtures: by path, name, mark or module.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from scripts.corpus.instruct.facts import base_name, function_name, receiver, type_name
from scripts.corpus.instruct.grammars import CJK, INSTRUCTION, WORD, parse, sentence, statements
from scripts.languages import Chat, chats, syntax

MIN_LINES, MAX_LINES = 3, 60  # of a function, its documentation not counted
MAX_DOCUMENTATION = 1000  # characters
URL = re.compile(r"(https?://)?[\w-]+(\.[\w-]+)+/\S*")
# attributes of Rust and annotations of Java that make a function a test
TEST_MARK = re.compile(r"#\[(\w+::)*(test|rstest|bench)\b|@(\w+\.)*(Parameterized|Repeated)?Test\b")
TEST_PATH = re.compile(r"(^|[/_.])tests?([/_.]|$)", re.IGNORECASE)


@dataclass(frozen=True)
class Function:
    """A documented function; texts are dedented.

    Attributes:
        holder: name of the type that it is a method of; None for other functions.
        documentation: without comment marks.
        summary: the first sentence of the documentation.
        source: the function without its documentation.
        documented: signature and documentation, without the body.
        line: of its first line, from 1.
        statements: of its body, without comments and docstring.
    """

    name: str
    holder: str | None
    documentation: str
    summary: str
    source: str
    documented: str
    line: int
    statements: int


def functions_of(text: str, path: str, language: str) -> list[Function]:
    """The documented functions of a file in the order of its text; none if too much of it does not parse."""
    return functions_from(parse(text, path, language) or {}, text, path, language)


def functions_from(captures: dict[str, list[Node]], text: str, path: str, language: str) -> list[Function]:
    """The documented functions of a parsed file."""
    if is_test(path):
        return []
    source, functions = text.encode(), []
    for node in captures.get("function", []):
        function = function_at(definition(node), source, language)
        if function is not None and not function.name.lower().startswith("test"):
            functions.append(function)
    return functions


def is_test(path: str) -> bool:
    """Whether a file is a test by its path, in any language."""
    if TEST_PATH.search(path):
        return True
    patterns = [rules.test_paths for rules in chats().values() if rules.test_paths]
    return any(re.search(f"({pattern})$", path, re.IGNORECASE) for pattern in patterns)


def definition(node: Node) -> Node:
    """The definition that a captured node belongs to: for a C declarator the function around it, else the node."""
    if node.type == "function_declarator":
        outer = node.parent
        while outer is not None and outer.type in ("pointer_declarator", "reference_declarator"):
            outer = outer.parent
        return outer if outer is not None else node
    return node


def function_at(node: Node, source: bytes, language: str) -> Function | None:
    """The function that `node` defines, or None if it is left out (see the module)."""
    body = node.child_by_field_name("body")
    if TEST_MARK.match(source[node.start_byte : node.end_byte].decode(errors="replace")):
        return None
    if in_test_module(node) or in_function(node):
        return None
    named = node if node.child_by_field_name("name") else innermost(node)
    name = function_name(named) if named is not None else None
    if body is None or name is None or not body.named_child_count or node.has_error:
        return None
    rules = chats()[language]
    if syntax(language).docstrings:
        parts = docstring_parts(node, body, source)
    else:
        parts = commented_parts(node, body, source, rules)
    if parts is None:
        return None
    documentation, code, documented = parts
    if len(documentation) > MAX_DOCUMENTATION or not MIN_LINES <= code.count("\n") + 1 <= MAX_LINES:
        return None
    summary = sentence(documentation)
    if not summary or not is_informative(summary):
        return None
    line = node.start_point.row + 1
    count = len(statements(body, language, of_function=True))
    return Function(name, holder_of(node, rules), documentation, summary, code, documented, line, count)


def around(node: Node) -> Iterator[Node]:
    """The nodes that a node stands in, from the inside out."""
    while node.parent is not None:
        node = node.parent
        yield node


def in_function(node: Node) -> bool:
    """Whether a function stands in another one, whose variables it may use."""
    return any("function" in outer.type or "method" in outer.type for outer in around(node))


def in_test_module(node: Node) -> bool:
    """Whether a function stands in a module `test` or `tests` of a Rust file."""
    modules = (outer for outer in around(node) if outer.type == "mod_item")
    return any(module.child_by_field_name("name").text in (b"test", b"tests") for module in modules)


def is_informative(summary: str) -> bool:
    """Whether a sentence has at least four words, or six Chinese characters; `For internal use.` has three.

    The words of an address do not count.
    """
    summary = URL.sub("", summary)
    return len(WORD.findall(summary)) >= 4 or len(CJK.findall(summary)) >= 6


def innermost(node: Node) -> Node | None:
    """The innermost C declarator, which names the function."""
    while node is not None and node.type != "function_declarator":
        node = node.child_by_field_name("declarator")
    return node


def holder_of(node: Node, rules: Chat) -> str | None:
    """The type that a function is a method of; None for others."""
    owner = receiver(node)
    if owner:
        return owner
    for outer in around(node):
        if outer.type == "impl_item":
            return base_name(outer.child_by_field_name("type"))
        if outer.type in rules.holders:
            return type_name(outer)
    return None


def docstring_parts(node: Node, body: Node, source: bytes) -> tuple[str, str, str] | None:
    """(documentation, function without it, signature with it) of a function with a docstring."""
    first = body.named_child(0)
    if first is None or first.type != "expression_statement" or first.named_child(0).type != "string":
        return None
    if body.named_child_count < 2:
        return None
    try:
        documentation = inspect.cleandoc(ast.literal_eval(first.named_child(0).text.decode()))
    except (ValueError, SyntaxError, AttributeError):  # an f-string, or of bytes
        return None
    rest = body.named_child(1)
    line_start = source.rfind(b"\n", 0, first.start_byte) + 1
    after = source.rfind(b"\n", 0, rest.start_byte) + 1
    if source[line_start : first.start_byte].strip() or after <= first.end_byte:  # on the line of the signature
        return None
    line = source.rfind(b"\n", 0, node.start_byte) + 1
    indent = source[line : node.start_byte]
    if indent.strip():
        return None
    code = textwrap.dedent((source[line:line_start] + source[after : node.end_byte]).decode(errors="replace")).rstrip()
    documented = textwrap.dedent(source[line : first.end_byte].decode(errors="replace")).rstrip()
    return documentation, code, documented


def commented_parts(node: Node, body: Node, source: bytes, rules: Chat) -> tuple[str, str, str] | None:
    """(documentation, function without it, signature with it) of a function below a comment."""
    outer = node.parent if node.parent is not None and node.parent.type == "template_declaration" else node
    comments, below = [], outer.start_point.row
    before = outer.prev_sibling
    while before is not None and before.type in rules.comments | rules.between:
        if TEST_MARK.match(before.text.decode(errors="replace")):
            return None
        last = before.end_point.row - (before.end_point.column == 0)
        own_line = not source[source.rfind(b"\n", 0, before.start_byte) + 1 : before.start_byte].strip()
        if last + 1 != below or not own_line:
            break
        if before.type in rules.comments and not INSTRUCTION.match(before.text.decode(errors="replace")):
            comments.insert(0, before)
        below, before = before.start_point.row, before.prev_sibling
    if not comments:
        return None
    start = source.rfind(b"\n", 0, outer.start_byte) + 1
    top = source.rfind(b"\n", 0, comments[0].start_byte) + 1
    if source[start : outer.start_byte].strip():
        return None
    raw = "\n".join(comment.text.decode(errors="replace").rstrip("\n") for comment in comments)
    documentation = inspect.cleandoc("\n".join(line.rstrip() for line in rules.marks.sub("", raw).splitlines())).strip()
    code = textwrap.dedent(source[start : outer.end_byte].decode(errors="replace")).rstrip()
    documented = textwrap.dedent(source[top : body.start_byte].decode(errors="replace")).rstrip()
    return documentation, code, documented
