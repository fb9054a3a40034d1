"""A content hash of the code that a rule can reach from its script's entry point: functions, classes, constants.

    python -m scripts.experiment.reruns.fingerprint scripts.corpus.filter             # the hash
    python -m scripts.experiment.reruns.fingerprint scripts.corpus.filter --reached   # what it covers, a line each

Starting at the module's `if __name__ == "__main__"` block, every name is followed through the project's imports to the
function, class or constant that it is bound to; a method counts where any reached code has its name. Of every module
that gets imported on the way, the statements that run at import count as reached as well. What cannot be resolved
counts as reached in whole: a module that is passed as a value, a star import, an attribute that is not defined there, a
module that calls `globals` or `eval`. Files of scripts/ that are not Python, or that are run by path, count where
reached code holds their name or that of their folder as text.

Comments, docstrings, descriptions and bounds of settings, formatting, the order of definitions, unreached code and the
modules in `FOR_READERS` change nothing. A syntax tree is hashed in the same way on every Python.
"""

import ast
import gc
import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scripts.experiment.reruns.statements import (
    bound_names,
    digest,
    file_digest,
    last_name,
    members_of,
    only_defines,
    without_documentation,
)

ROOT = Path(__file__).parents[3]
PACKAGE = "scripts"
KINDS = {ast.FunctionDef: "function", ast.AsyncFunctionDef: "function", ast.ClassDef: "class"}

# what these do is seen on the terminal alone: log lines, and errors as one line
FOR_READERS = {"scripts.common.cli", "scripts.common.disk", "scripts.common.errors"}
FOR_READERS |= {"scripts.common.progress"}
LISTING = "constants_in"  # takes one constant of each module of a package: scripts/common/discovery.py
WORD = re.compile(r"[A-Za-z]\w*")
ANYTHING = {"globals", "exec", "eval", "vars", "__import__", "import_module"}  # calls that can reach all of a module

Target = tuple[str, str | None]  # a module and a name in it; None for the module itself


@dataclass
class ModuleParts:
    """What a module consists of.

    Attributes:
        definitions: name → the statements that bind it; `Class.method` for a member of a class.
        members: class → the names of what `members_of` takes out of it.
        effects: statements that run at import and are more than a definition, in their order.
        main: the statements of `if __name__ == "__main__"`, which run only in the module that is started.
        imports: name → what it is bound to.
        imported: project modules that are imported at import.
    """

    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    effects: list[ast.stmt] = field(default_factory=list)
    main: list[ast.stmt] = field(default_factory=list)
    imports: dict[str, Target] = field(default_factory=dict)
    imported: list[str] = field(default_factory=list)


class Uses(NamedTuple):
    """What a statement uses.

    Attributes:
        imports: name → what its own import statements bind it to.
        loaded: the project modules that these import.
        names: (name, the attributes that are taken of it: `a.b.c` gives `b`, `c`).
        words: what may name a method: attributes, names, keywords and the words of its strings.
        texts: its strings.
        listed: (package, name) of each call of `constants_in`; None for the package that the statement is in.
    """

    imports: dict[str, Target]
    loaded: list[str]
    names: set[tuple[str, tuple[str, ...]]]
    words: set[str]
    texts: set[str]
    listed: set[tuple[str | None, str]]


def path_of(module: str) -> Path | None:
    """The file of a dotted module name; None where it is no module of this project."""
    return path_below(ROOT, module)


@cache
def path_below(root: Path, module: str) -> Path | None:
    if module.split(".")[0] != PACKAGE:
        return None
    base = root.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


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


def imports_of(statement: ast.Import | ast.ImportFrom) -> tuple[dict[str, Target], list[str]]:
    """(name → what it is bound to, project modules that are loaded) of an import; a star import binds `*`."""
    bound, loaded = {}, []
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            # `import a.b` binds `a`, `import a.b as c` binds the module `a.b`
            target = alias.name if alias.asname else alias.name.split(".")[0]
            bound[alias.asname or target] = (target, None)
            loaded.append(alias.name)
            continue
        submodule = f"{statement.module}.{alias.name}"
        if path_of(submodule):
            bound[alias.asname or alias.name] = (submodule, None)
            loaded.append(submodule)
        else:
            bound[alias.asname or alias.name] = (statement.module, alias.name)
            loaded.append(statement.module)
    return bound, [module for module in loaded if path_of(module)]


@cache
def read_parts(module: str) -> ModuleParts:
    """The parts of a project module."""
    parts = ModuleParts()
    for statement in without_documentation(ast.parse(path_of(module).read_bytes())).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'":
            parts.main += statement.body
            continue
        names, defines = bound_names(statement), only_defines(statement)
        is_import = isinstance(statement, ast.Import | ast.ImportFrom)
        for name in names:
            parts.definitions.setdefault(name, []).append(statement)
        if isinstance(statement, ast.ClassDef) and defines:
            for word, member in members_of(statement).items():
                parts.members.setdefault(statement.name, []).append(word)
                parts.definitions.setdefault(f"{statement.name}.{word}", []).append(member)
        if is_import or not names or not defines:
            if not is_import:
                parts.effects.append(statement)
            for inner in ast.walk(statement):  # an optional import stands in a `try`
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    bound, loaded = imports_of(inner)
                    parts.imports |= bound
                    parts.imported += loaded
    return parts


@cache
def uses_of(statement: ast.AST) -> Uses:
    """What a statement uses. Many rules reach the same statements, so each is read once."""
    uses, names, attributes, understood = Uses({}, [], set(), set(), set(), set()), [], {}, set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and last_name(node) == LISTING and isinstance(node.args[1], ast.Constant):
            package, name = node.args
            uses.listed.add((getattr(package, "value", None), name.value))
            understood.update((package, name))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound, loaded = imports_of(node)
            uses.imports.update(bound)
            uses.loaded.extend(loaded)
        elif isinstance(node, ast.Attribute):
            attributes[node.value] = node
            uses.words.add(node.attr)
        elif isinstance(node, ast.Name):
            names.append(node)
            uses.words.add(node.id)
        elif isinstance(node, ast.keyword):
            uses.words.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in understood:
            uses.texts.add(node.value)
            uses.words.update(WORD.findall(node.value))
    for name in names:
        chain, node = [], attributes.get(name)
        while node:
            chain.append(node.attr)
            node = attributes.get(node)
        uses.names.add((name.id, tuple(chain)))
    return uses


class ReachableCode:
    """Everything that a module reaches when it is started, without the code of the modules in `without`.

    Attributes:
        modules: the modules that are imported.
        definitions: (module, name) of each definition that is reached.
        imports: (module, name, what it is bound to) of each imported name that reached code uses.
        files: files that are named in reached code.
    """

    def __init__(self, entry: str, without: tuple[str, ...]):
        self.entry, self.without = entry, FOR_READERS.union(without)
        self.modules: set[str] = set()
        self.definitions: set[tuple[str, str]] = set()
        self.imports: set[tuple[str, str, str]] = set()
        self.files: set[Path] = set()
        self.words: set[str] = set()
        self.waiting: dict[str, list[tuple[str, str]]] = {}  # word → the members of reached classes that it would name
        self.queue: list[tuple[str, ast.AST]] = []
        self.load(entry)
        self.queue += [(entry, statement) for statement in read_parts(entry).main]
        while self.queue:
            self.follow(*self.queue.pop())

    def load(self, module: str) -> None:
        """Import a module: its packages, its statements that run at import, and the modules that it imports."""
        if module in self.without:
            return
        words = module.split(".")
        for size in range(1, len(words) + 1):
            name = ".".join(words[:size])
            if name not in self.modules and path_of(name):
                self.modules.add(name)
                self.queue += [(name, statement) for statement in read_parts(name).effects]
                for imported in read_parts(name).imported:
                    self.load(imported)

    def reach(self, module: str, name: str | None) -> None:
        """Reach a name of a module, wherever it is defined; None, `*` and unknown names mean all of the module."""
        if path_of(module) is None or module in self.without:
            return
        self.load(module)
        parts = read_parts(module)
        if name in parts.definitions:
            if (module, name) not in self.definitions:
                self.definitions.add((module, name))
                if name != LISTING:  # what it takes of which modules is said where it is called
                    self.queue += [(module, statement) for statement in parts.definitions[name]]
                for word in parts.members.get(name, ()):
                    member = (module, f"{name}.{word}")
                    self.waiting.setdefault(word, []).append(member)
                    if word in self.words:
                        self.reach(*member)
        elif name in parts.imports:
            self.reach_import(module, name, parts.imports[name])
        elif name and path_of(f"{module}.{name}"):
            self.load(f"{module}.{name}")
        else:
            for every in parts.definitions:
                self.reach(module, every)

    def reach_import(self, module: str, used: str, target: Target) -> None:
        self.imports.add((module, used, f"{target[0]}:{target[1]}"))
        self.reach(*target)

    def name_members(self, words: set[str]) -> None:
        """Reach the members of reached classes that these words name."""
        for word in words - self.words:
            self.words.add(word)
            for module, member in self.waiting.get(word, ()):
                self.reach(module, member)

    def follow(self, module: str, statement: ast.AST) -> None:
        """Reach what a statement of a module uses."""
        uses = uses_of(statement)
        self.name_members(uses.words)
        imports = read_parts(module).imports | uses.imports
        for loaded in uses.loaded:
            self.load(loaded)
        if "*" in imports:
            self.reach_import(module, "*", imports["*"])
        for name, attributes in uses.names:
            if name in ANYTHING:
                self.reach(module, None)
            if name in imports:
                self.reach_import(module, name, dotted(*imports[name], attributes))
            elif name in read_parts(module).definitions:
                self.reach(module, name)
        for package, name in uses.listed:
            for file in sorted(path_of(package or module).parent.glob("*.py")):
                inner = f"{package or module}.{file.stem}"
                if file.stem != "__init__":
                    self.load(inner)
                    if name in read_parts(inner).definitions or name in read_parts(inner).imports:
                        self.reach(inner, name)
        for text in uses.texts:
            for file in files_by_name(ROOT).get(text, []):
                self.files.add(file)
                self.name_members(set(WORD.findall(file.read_text(encoding="utf-8", errors="replace"))))
            self.reach(text, None)  # a module that is named to be run or imported

    def units(self) -> dict[str, str]:
        """place → kind and hash (16 hex digits) of each part that is reached, by place."""
        units = {}

        def add(module: str, part: str, kind: str, statements: list[ast.stmt]) -> None:
            units[f"{path_of(module).relative_to(ROOT)}:{part}"] = f"{kind} {digest(tuple(statements))}"

        add(self.entry, "__main__", "block", read_parts(self.entry).main)
        for module in self.modules:
            if read_parts(module).effects:
                add(module, "at import", "statements", read_parts(module).effects)
        for module, name in self.definitions:
            statements = read_parts(module).definitions[name]
            add(module, name, KINDS.get(type(statements[0]), "constant"), statements)
        for module, name, target in self.imports:
            add(module, f"{name} from {target}", "import", [])
        for path in self.files:
            units[str(path.relative_to(ROOT))] = f"file {file_digest(path)}"
        return dict(sorted(units.items()))


def dotted(module: str, name: str | None, attributes: tuple[str, ...]) -> Target:
    """What an imported name means with its attributes: the longest dotted name is a module."""
    for attribute in attributes:
        if name is not None:
            break
        if path_of(f"{module}.{attribute}"):
            module = f"{module}.{attribute}"
        else:
            name = attribute
    return module, name


@contextmanager
def no_search_for_garbage() -> Iterator[None]:
    """Syntax trees are many objects, which stay: to look for garbage among them takes half of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


@cache
def reach(module: str, without: tuple[str, ...] = ()) -> ReachableCode:
    """What `python -m module` reaches, of other modules than those in `without`, which the caller knows not to run."""
    with no_search_for_garbage():
        return ReachableCode(module, without)


@cache
def fingerprint(module: str, without: tuple[str, ...] = ()) -> str:
    """A hash (16 hex digits) over all that `python -m module` reaches, of other modules than those in `without`."""
    with no_search_for_garbage():
        lines = [f"{place} {content}" for place, content in reach(module, without).units().items()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


if __name__ == "__main__":
    if "--reached" in sys.argv:
        print("\n".join(f"{place} {content}" for place, content in reach(sys.argv[1]).units().items()))
    else:
        print(fingerprint(sys.argv[1]))
