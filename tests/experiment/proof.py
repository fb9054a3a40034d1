"""Which functions a rule's jobs execute, by a trace, against which functions its fingerprint covers.

A pair is a function and a rule. It is missed where the rule's job executes the function and a change of the function
leaves the rule's fingerprint as it is: a rerun too few.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from scripts.experiment.optimizers import STAGE
from scripts.experiment.reruns import fingerprint
from scripts.experiment.settings.experiment import Evaluation

ROOT = Path(__file__).parents[2]
Function = tuple[str, str]  # file, qualified name
Pairs = set[tuple[Function, str]]


def rules() -> list[str]:
    """The modules whose fingerprint is a param of a rule."""
    named = {
        name for path in (ROOT / "rules").glob("*.smk") for name in re.findall(r'rint\("([\w.]+)"', path.read_text())
    }
    suites = {f"scripts.evaluation.suites.{name}" for name in Evaluation.model_fields}
    return sorted(named | {STAGE} | {name for name in suites if fingerprint.path_of(name)})


def functions_in(tree: ast.AST, above: str = "") -> Iterator[tuple[str, ast.AST]]:
    """(qualified name, node) of each function in a tree, as Python names it; nested ones too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield above + node.name, node
            yield from functions_in(node, f"{above}{node.name}.<locals>.")
        else:
            yield from functions_in(node, f"{above}{node.name}." if isinstance(node, ast.ClassDef) else above)


def all_functions(root: Path = ROOT) -> dict[Function, ast.AST]:
    """Every function of scripts/ with its place in the source."""
    return {
        (str(path.relative_to(root)), name): node
        for path in sorted((root / "scripts").rglob("*.py"))
        for name, node in functions_in(ast.parse(path.read_bytes()))
    }


def module_name(file: str) -> str:
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def covered() -> Pairs:
    """The pairs whose function lies within a statement that the rule's fingerprint covers."""
    pairs, functions = set(), all_functions(fingerprint.ROOT)
    for rule in rules():
        reached = fingerprint.reach(rule)
        statements = [(rule, statement) for statement in fingerprint.read_parts(rule).main]
        statements += [
            (module, effect) for module in reached.modules for effect in fingerprint.read_parts(module).effects
        ]
        for module, name in reached.definitions:
            statements += [(module, definition) for definition in fingerprint.read_parts(module).definitions[name]]
        within = {}  # module → lines at which a function begins that its statements hold
        for module, statement in statements:
            found_here = (
                node.lineno for node in ast.walk(statement) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            )
            within.setdefault(module, set()).update(found_here)
        whole_files = {str(path.relative_to(fingerprint.ROOT)) for path in reached.files}
        for function, node in functions.items():
            if function[0] in whole_files or node.lineno in within.get(module_name(function[0]), ()):
                pairs.add((function, rule))
    return pairs


def executed(folder: Path) -> Pairs:
    """The pairs that a trace in `folder` holds, of the rules alone."""
    known, functions, pairs = set(rules()), all_functions(), set()
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            rule, file, function = line.split("\t")
            if rule in known and (file, function) in functions:  # the body of a class is no function
                pairs.add(((file, function), rule))
    return pairs


def changed_rules(function: Function, node: ast.AST, root: Path, before: dict[str, str], forget) -> set[str]:
    """The rules whose fingerprint is not that of `before` when a function changes in the tree at `root`.

    Fingerprints are taken of that tree; `forget(module)` makes them read a module again.
    """
    path = root / function[0]
    text = path.read_text()
    lines = text.splitlines(keepends=True)
    last = node.body[-1]
    at = node.end_lineno
    same_line = last.lineno == node.lineno
    lines[at - 1] = lines[at - 1].rstrip("\n") + ("; 12345\n" if same_line else f"\n{' ' * last.col_offset}12345\n")
    path.write_text("".join(lines))
    try:
        forget(module_name(function[0]))
        return {rule for rule in before if fingerprint.fingerprint(rule) != before[rule]}
    finally:
        path.write_text(text)
        forget(module_name(function[0]))
