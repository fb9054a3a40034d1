"""A content hash of the code that a rule runs: its module and the project modules it imports, without comments.

python -m scripts.experiment.fingerprint scripts.corpus.filter
"""

import ast
import hashlib
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


def path_of(module: str) -> Path | None:
    """The project file of a dotted module name; None where the name is no module of this project."""
    base = ROOT.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if module.startswith("scripts") and path.is_file():
            return path
    return None


def without_docstrings(tree: ast.Module) -> ast.Module:
    """The tree less its docstrings; comments are not in a tree to begin with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return tree


@cache
def parsed(module: str) -> tuple[str, frozenset[str]]:
    """(hash of the module's syntax tree, the project modules that it imports)."""
    tree = without_docstrings(ast.parse(path_of(module).read_bytes()))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # `from scripts.common import files` names a module in its second half, `from scripts.x import f` does not
            imported |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
    return digest, frozenset(name for name in imported if path_of(name))


@cache
def fingerprint(module: str) -> str:
    """A hash (16 hex digits) over `module` and all project modules that it imports, directly or not."""
    seen, queue = {}, [module]
    while queue:
        name = queue.pop()
        if name not in seen:
            seen[name], imported = parsed(name)
            queue += imported
    return hashlib.sha256(repr(sorted(seen.items())).encode()).hexdigest()[:16]


if __name__ == "__main__":
    print(fingerprint(sys.argv[1]))
