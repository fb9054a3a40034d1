"""A content hash of the code that a rule can reach from its script's entry point: functions, classes, constants.

    python -m scripts.experiment.fingerprint scripts.corpus.filter             # the hash
    python -m scripts.experiment.fingerprint scripts.corpus.filter --reached   # what it covers, a line each

Starting at the module's `if __name__ == "__main__"` block, every name is followed through the project's imports to the
function, class or constant that it is bound to. Of every module that gets imported on the way, the statements that run
at import count as reached as well. A method of a record (a dataclass, a NamedTuple) counts where reached code has its
name as an attribute of whatever object, or in a text; any other class counts as a whole. What cannot be resolved counts
as reached in whole: a module that is passed as a value, a star import, an attribute that is not defined there,
`getattr` on a module. Files of scripts/ that are not Python, or that are run by path, count where reached code holds
their name or that of their folder as text.

Comments, docstrings, descriptions of settings, formatting, the order of definitions and unreached code change nothing.
"""

import ast
import hashlib
import re
import sys
from functools import cache
from pathlib import Path

from scripts.experiment import code_units
from scripts.experiment.code_units import (
    PACKAGE,
    ModuleParts,
    modules_of,
    normal_form,
    path_of,
    read_units,
    without_documentation,
)
from scripts.experiment.code_uses import LISTING, WHOLE, uses_of


@cache
def files_by_name(root: Path) -> dict[str, list[Path]]:
    """Name of a file, or of a folder that is no package, → the files of scripts/ that it means.

    Pages for readers (.md) are left out: no code reads them, though code may name its own README.md.
    """
    files: dict[str, list[Path]] = {}
    for path in sorted((root / PACKAGE).rglob("*")):
        if path.is_file() and path.suffix != ".md" and "__pycache__" not in path.parts:
            files.setdefault(path.name, []).append(path)
            if path.suffix != ".py" and not (path.parent / "__init__.py").exists():
                files.setdefault(path.parent.name, []).append(path)
    return files


class ReachableCode:
    """Everything that a module reaches when it is started.

    Attributes:
        definitions: (module, name) of each definition that is reached.
        modules: the modules that are imported.
        imports: (module, name, what it is bound to) of each imported name that reached code uses.
        files: files that are named in reached code.
        attributes: names that reached code may take of any object; `*` where it may take any.
        waiting: methods of reached records whose name did not occur yet.
    """

    def __init__(self, entry: str):
        self.definitions: set[tuple[str, str]] = set()
        self.modules: set[str] = set()
        self.imports: set[tuple[str, str, str]] = set()
        self.files: set[Path] = set()
        self.attributes: set[str] = set()
        self.waiting: set[tuple[str, str]] = set()
        self.queue: list[tuple[ModuleParts, ast.AST]] = []
        self.load(entry)
        self.queue += [(read_units(entry), statement) for statement in read_units(entry).main]
        while self.queue or self.reach_methods():
            self.follow(*self.queue.pop())

    def load(self, module: str) -> None:
        """Import a module: its packages, its statements that run at import, and the modules that it imports."""
        parts = module.split(".")
        for name in [".".join(parts[:size]) for size in range(1, len(parts) + 1)]:
            if name not in self.modules and path_of(name):
                self.modules.add(name)
                units = read_units(name)
                self.queue += [(units, statement) for statement in units.effects]
                for imported in units.imported:
                    self.load(imported)

    def reach(self, module: str, name: str) -> None:
        """Reach a name of a module, wherever it is defined."""
        if path_of(module) is None:
            return
        self.load(module)
        units = read_units(module)
        if name in units.definitions:
            if (module, name) not in self.definitions:
                self.definitions.add((module, name))
                if name == LISTING:  # what it takes of which modules is said where it is called
                    return
                self.queue += [(units, statement) for statement in units.definitions[name]]
                self.waiting |= {(module, f"{name}.{method}") for method in units.methods.get(name, ())}
        elif name in units.imports:
            self.reach_imported(units, name, units.imports[name])
        elif path_of(f"{module}.{name}"):
            self.load(f"{module}.{name}")
        else:
            self.reach_module(module)

    def reach_methods(self) -> bool:
        """Reach the methods of reached records whose name occurs in reached code; whether there is more to follow."""
        any_attribute = "*" in self.attributes
        reached = {method for method in self.waiting if any_attribute or method[1].partition(".")[2] in self.attributes}
        self.waiting -= reached
        for module, name in reached:
            self.reach(module, name)
        return bool(self.queue)

    def reach_imported(self, units: ModuleParts, used: str, target: tuple[str, str | None]) -> None:
        """Reach what a name that is imported means: a name of a module, or a module that is used as a value."""
        module, name = target
        self.imports.add((units.name, used, f"{module}:{name}"))
        if name == "*" or name is None:
            self.reach_module(module)
        else:
            self.reach(module, name)

    def reach_module(self, module: str) -> None:
        """Reach all of a module."""
        if path_of(module):
            self.load(module)
            for name in read_units(module).definitions:
                self.reach(module, name)

    def follow(self, units: ModuleParts, statement: ast.AST) -> None:
        """Reach what a statement of a module uses."""
        uses = uses_of(statement)
        self.attributes |= uses.attributes
        imports = units.imports | uses.imports
        for module in uses.loaded:
            self.load(module)
        if "*" in imports:
            self.reach_imported(units, "*", imports["*"])
        for name, attributes in uses.names:
            self.reach_name(units, name, attributes, imports)
        for package, name in uses.listed:
            for module in modules_of(package or units.name):
                self.load(module)
                if name in read_units(module).definitions or name in read_units(module).imports:
                    self.reach(module, name)
        for text in uses.texts:
            for path in files_by_name(code_units.ROOT).get(text, []):
                self.files.add(path)
                self.attributes.update(re.findall(r"\w+", path.read_text(errors="replace")))  # as a template may
            if path_of(text):  # a module that is named to be run or imported
                self.reach_module(text)

    def reach_name(self, units: ModuleParts, used: str, attributes: tuple[str, ...], imports: dict) -> None:
        """Reach what one name means, with the attributes that are taken of it."""
        if used in WHOLE:
            self.reach_module(units.name)
        if used not in imports:
            if used in units.definitions:
                self.reach(units.name, used)
            return
        module, name = imports[used]
        for attribute in attributes:  # the longest dotted name that is a module
            if name is not None:
                break
            if path_of(f"{module}.{attribute}"):
                module = f"{module}.{attribute}"
                self.load(module)
            else:
                name = attribute
        self.reach_imported(units, used, (module, name))

    def lines(self) -> list[str]:
        """One line per part that is reached, with the hash of its content; sorted."""
        lines = []
        for module in self.modules:
            units = read_units(module)
            if units.effects:
                lines.append(f"{module}: at import {digest(tuple(units.effects))}")
        for module, name in self.definitions:
            lines.append(f"{module}: {name} {digest(tuple(read_units(module).definitions[name]))}")
        lines += [f"{module}: {name} = {target}" for module, name, target in self.imports]
        lines += [f"{path.relative_to(code_units.ROOT)} {file_digest(path)}" for path in self.files]
        return sorted(lines)


@cache
def digest(statements: tuple[ast.stmt, ...]) -> str:
    """A hash of statements, whatever their comments and formatting."""
    return hashlib.sha256(repr(normal_form(list(statements))).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """A hash of a file; of a Python file that is run by path, of its statements."""
    content = path.read_bytes()
    if path.suffix == ".py":
        return digest(tuple(without_documentation(ast.parse(content)).body))
    return hashlib.sha256(content).hexdigest()


@cache
def reach(module: str) -> ReachableCode:
    """What `python -m module` reaches."""
    return ReachableCode(module)


@cache
def fingerprint(module: str) -> str:
    """A hash (16 hex digits) over all that `python -m module` reaches."""
    entry = read_units(module)
    parts = [f"main {digest(tuple(entry.main))}", *reach(module).lines()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


if __name__ == "__main__":
    if "--reached" in sys.argv:
        print("\n".join(reach(sys.argv[1]).lines()))
    else:
        print(fingerprint(sys.argv[1]))
