"""Find the functions of a module, also in classes, whose bodies can be masked.

functions("a.py", "a", text, max_lines=20)    # [Function("a.py", "a", "Class.method", 7, ...)]
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from scripts.evaluation.code_tasks.regions import Parts, Region, cut, regions

EVERY = 1_000_000  # lines; no function is longer


@dataclass(frozen=True)
class Function:
    """A function of a module.

    Attributes:
        name: with that of its class, as `Class.method`.
        line: where its code begins, its first decorator's line, from 1.
        region: its body without the docstring.
        first_argument: name of its first argument; empty if it has none.
        coroutine: whether it is `async`.
    """

    path: str
    module: str
    name: str
    line: int
    region: Region
    first_argument: str
    coroutine: bool

    @property
    def lines(self) -> int:
        return self.region.last - self.region.first + 1

    def cut(self, text: str) -> Parts:
        return cut(text, self.region)


def definitions(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(name, definition) of every function of a module and its classes, also below `if` and `try`."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield owner + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from definitions(statement.body, f"{owner}{statement.name}.")
        elif isinstance(statement, ast.If | ast.Try):
            for part in (statement.body, statement.orelse, getattr(statement, "finalbody", [])):
                yield from definitions(part, owner)


def functions(path: str, module: str, text: str) -> list[Function]:
    """The functions of a file with a body of at least two lines of its own; none if it does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    known, all_functions = {region for region in regions(text, "python", EVERY) if region.size == "function"}, []
    for name, definition in definitions(tree.body):
        documented = ast.get_docstring(definition, clean=False) is not None
        body = definition.body[1:] if documented else definition.body
        if not body:
            continue
        start = min([body[0].lineno, *(node.lineno for node in getattr(body[0], "decorator_list", []))])
        region = Region("function", start - 1, body[-1].end_lineno - 1)
        if region in known:
            signature = definition.args
            arguments = [
                *signature.posonlyargs,
                *signature.args,
                *filter(None, [signature.vararg]),
                *signature.kwonlyargs,
            ]
            line = min([definition.lineno, *(node.lineno for node in definition.decorator_list)])
            first = arguments[0].arg if arguments else ""
            coroutine = isinstance(definition, ast.AsyncFunctionDef)
            all_functions.append(Function(path, module, name, line, region, first, coroutine))
    return all_functions
