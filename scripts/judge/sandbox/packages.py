"""The Python packages that programs and tests may import, beside the standard library.

    packages = Packages.from_environment(None)
    packages.missing(problem)                # {"scipy"}: what its tests import and nobody has
    packages.of(problem, "judge")            # {"/opt/judge": "/home/me/stagecraft/.venv/lib/python3.11/site-packages"}

Tests that import a package, as EvalPlus' do with numpy, find it in this project's own environment. A candidate sees
only the environment that the experiment names (`evaluation.code.python`), which its tests see first, too.
"""

import ast
import marshal
import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import ModuleType

from scripts.common.errors import UserError
from scripts.judge.problem import Problem

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
PROJECT = Path(sysconfig.get_paths()["purelib"]).resolve()
# Threads of numpy's libraries count as processes, and each reserves memory.
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def syntax_tree(source: str) -> ast.Module:
    """`ast.parse`, once more where CPython 3.11 counts its recursion wrongly, as it may in one of several threads."""
    try:
        return ast.parse(source)
    except SystemError:  # https://github.com/python/cpython/issues/106905
        return ast.parse(source)


@cache
def imported(source: str) -> frozenset[str]:
    """The packages outside the standard library that a program imports; not those that it could do without (`try`)."""
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    tried = set()
    for block in [node for node in ast.walk(tree) if isinstance(node, ast.Try)]:
        tried.update(map(id, ast.walk(block)))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and id(node) not in tried:
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and id(node) not in tried and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return frozenset(names - set(sys.stdlib_module_names))


def with_imports(imports: str, code: str) -> str:
    """The imports whose names a program uses and nowhere binds."""
    try:
        nodes = list(ast.walk(syntax_tree(code)))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    for kind in ("name", "arg"):
        bound |= {getattr(node, kind) for node in nodes if isinstance(getattr(node, kind, None), str)}
    bound |= {(node.asname or node.name).partition(".")[0] for node in nodes if isinstance(node, ast.alias)}
    free, lines = names - bound, []
    for statement in syntax_tree(imports).body:
        own = [alias for alias in statement.names if (alias.asname or alias.name).partition(".")[0] in free]
        if own:
            statement.names = own
            lines.append(ast.unparse(statement))
    return "".join(f"\n{line}" for line in lines)


def holds(folder: Path, package: str) -> bool:
    """Whether a folder of packages holds this one."""
    return (folder / package).is_dir() or any(folder.glob(f"{package}.*"))


@dataclass(frozen=True)
class Packages:
    """Folders of packages: of the environment that the experiment names, and of this project's own."""

    environment: Path | None = None
    project: Path = PROJECT

    @classmethod
    def from_environment(cls, environment: str | None) -> "Packages":
        """The packages of an environment. Raises UserError: it is no environment of this Python."""
        if environment is None:
            return cls()
        folder = Path(environment, "lib", VERSION, "site-packages")
        if not folder.is_dir():
            raise UserError(
                f"evaluation.code.python: {environment}: no packages in {folder.relative_to(environment)}; make it with"
                f" {VERSION} -m venv {environment}"
            )
        return cls(folder.resolve())

    def of(self, problem: Problem, role: str) -> dict[str, str]:
        """The folders that the judge or the candidate of a problem sees, by their paths in the sandbox."""
        folders = {}
        if self.environment:
            folders = {"/opt/packages": str(self.environment)}
        if role == "judge" and any(
            self.environment is None or not holds(self.environment, name) for name in imported(problem.tests)
        ):
            folders["/opt/judge"] = str(self.project)
        return folders

    def missing(self, problem: Problem) -> set[str]:
        """What a problem needs and nobody has: its tests may import from both environments, its prompt from the one."""
        environments = [folder for folder in (self.environment, self.project) if folder]
        lacking = set()
        for name in imported(problem.tests):
            if not any(holds(folder, name) for folder in environments):
                lacking.add(name)
        return lacking | {
            name for name in imported(problem.head) if not (self.environment and holds(self.environment, name))
        }


NONE = Packages()


def bundle(modules: Sequence[ModuleType], name: str, last_line: str = "") -> bytes:
    """Modules as one compiled program, in the format of .pyc files (PEP 552), so that no process has to compile it.

    Imports of this project, and what follows `if __name__`, are left out.

    Args:
        modules: each after those that it imports.
        name: file name in tracebacks.
        last_line: code at the end, such as a call of `main`.
    """
    texts = (Path(module.__file__).read_text(encoding="utf-8").split("\nif __name__")[0] for module in modules)
    without_imports = re.sub(r"^from scripts\.[^\n(]*(?:\([^)]*\))?\n", "", "\n".join(texts), flags=re.M)
    return MAGIC_NUMBER + bytes(12) + marshal.dumps(compile(f"{without_imports}\n{last_line}\n", name, "exec"))
