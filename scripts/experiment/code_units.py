"""What a Python module consists of, for fingerprints: definitions by name, statements that run at import, imports.

    units = read_units("scripts.tokens.pack")
    units.definitions["pack"]      # the statements that define it
    units.effects                  # statements that run whenever the module is imported

Only the standard library is used, and `normal_form` writes a syntax tree in the same way on every Python: it leaves out
what is empty, and so the fields that newer versions add (`type_params` since 3.12) or omit.
"""

import ast
import copy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "scripts"

# Calls that only make a value, and decorators that only wrap: a definition that uses no other call does nothing at
# import but bind its name.
DECORATORS = "abstractmethod cache classmethod contextmanager dataclass field_validator lru_cache model_validator njit"
DECORATORS += " property staticmethod total_ordering wraps"
CALLS = "AfterValidator BeforeValidator Field NamedTuple Path TypeVar arange array bool bytes compile decode deque"
CALLS += " dict dtype encode enumerate field float format fromkeys frozenset get getLogger int int64 itemgetter"
CALLS += " items join keys len list lower max min namedtuple range removeprefix replace set sorted split str strip"
CALLS += " sum tuple uint32 uint64 upper values zip"
PURE = {*DECORATORS.split(), *CALLS.split()}
SEPARABLE = ("property", "cached_property", "staticmethod", "classmethod")


@dataclass
class ModuleParts:
    """A module's parts.

    Attributes:
        definitions: name → statements that bind it; a class is one statement with all its methods, unless it is a
            record: then each of its own methods is a definition `Class.method`, and the class is the rest.
        methods: record → the names of these methods.
        records: names of classes whose call only makes a value: records, and those of settings.
        effects: statements that run at import and are no plain definition, in their order.
        main: the statements of `if __name__ == "__main__"`, which run only in the module that is started.
        imports: name → (module, attribute) it is bound to; attribute None where it is bound to the module itself.
        imported: project modules that are imported at import.
    """

    name: str
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    methods: dict[str, list[str]] = field(default_factory=dict)
    records: set[str] = field(default_factory=set)
    effects: list[ast.stmt] = field(default_factory=list)
    main: list[ast.stmt] = field(default_factory=list)
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    imported: list[str] = field(default_factory=list)


def path_of(module: str) -> Path | None:
    """The file of a dotted module name; None where the name is no module of this project."""
    return path_below(ROOT, module)


@cache
def path_below(root: Path, module: str) -> Path | None:
    if module.split(".")[0] != PACKAGE:
        return None
    base = root.joinpath(*module.split("."))
    return next((path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def modules_of(package: str) -> list[str]:
    """The modules in the folder of a package, by name."""
    files = sorted(path_of(package).parent.glob("*.py"))
    return [f"{package}.{file.stem}" for file in files if file.stem != "__init__"]


def imports_of(statement: ast.Import | ast.ImportFrom) -> tuple[dict[str, tuple[str, str | None]], list[str]]:
    """(name → what it is bound to, project modules that are loaded) of an import; a star import binds `*`."""
    bound, loaded = {}, []
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            # `import a.b` binds `a`, `import a.b as c` binds the module `a.b`
            target = alias.name if alias.asname else alias.name.split(".")[0]
            bound[alias.asname or target] = (target, None)
            loaded.append(alias.name)
        elif path_of(submodule := f"{statement.module}.{alias.name}"):
            bound[alias.asname or alias.name] = (submodule, None)
            loaded.append(submodule)
        else:
            bound[alias.asname or alias.name] = (statement.module, alias.name)
            loaded.append(statement.module)
    return bound, [module for module in loaded if path_of(module)]


def is_main_block(statement: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    return isinstance(statement, ast.If) and ast.unparse(statement.test) == "__name__ == '__main__'"


def is_pure(node: ast.AST, units: ModuleParts) -> bool:
    """Whether computing a value, or a decorator, calls nothing but what only makes a value: records, too."""
    calls = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return all(
        isinstance(call, ast.Name | ast.Attribute) and (last_name(call) in PURE or makes_record(call, units))
        for call in calls
    )


def makes_record(call: ast.expr, units: ModuleParts) -> bool:
    """Whether what is called is the name of a record of this project."""
    if not isinstance(call, ast.Name):
        return False
    module, name = units.imports.get(call.id, (units.name, call.id))
    if module == units.name:
        return name in units.records
    return path_of(module) is not None and name in read_units(module).records


def last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_plain(statement: ast.stmt, units: ModuleParts) -> bool:
    """Whether a definition does nothing at import but bind its names."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return all(last_name(getattr(decorator, "func", decorator)) in PURE for decorator in statement.decorator_list)
    if isinstance(statement, ast.ClassDef):
        body = [inner for inner in statement.body if not isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)]
        decorators = all(
            last_name(getattr(decorator, "func", decorator)) in PURE for decorator in statement.decorator_list
        )
        return decorators and all(is_pure(inner, units) for inner in body) and not statement.keywords
    return is_pure(statement, units)


def is_record(statement: ast.stmt, units: ModuleParts) -> bool:
    """Whether it is a dataclass or NamedTuple and nothing else: what is not called by name in our code is not called.

    Any other class may have methods that a library calls: of a base, or of a protocol, as `read` of a file.
    """
    if not isinstance(statement, ast.ClassDef) or not is_plain(statement, units):
        return False
    decorators = [last_name(getattr(decorator, "func", decorator)) for decorator in statement.decorator_list]
    bases = [last_name(base) for base in statement.bases]
    return (decorators, bases) in ((["dataclass"], []), ([], ["NamedTuple"]))


def is_settings(statement: ast.stmt, units: ModuleParts) -> bool:
    """Whether it is a record of settings: below `Record`, of whose checks none does anything but refuse."""
    return (
        isinstance(statement, ast.ClassDef)
        and is_plain(statement, units)
        and any(last_name(base) == "Record" or makes_record(base, units) for base in statement.bases)
    )


def separable(statement: ast.stmt) -> bool:
    """Whether a part of a record is a method that only its name calls."""
    return (
        isinstance(statement, ast.FunctionDef)
        and not statement.name.startswith("__")
        and all(last_name(decorator) in SEPARABLE for decorator in statement.decorator_list)
    )


def bound_names(statement: ast.stmt) -> list[str]:
    """The names that a definition or assignment binds; none where it is neither."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        if all(isinstance(target, ast.Name | ast.Tuple) for target in targets):
            return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    return []


def without_documentation(tree: ast.Module) -> ast.Module:
    """The tree less its docstrings and the descriptions of settings; comments are not in a tree to begin with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(getattr(first, "value", None), ast.Constant) and isinstance(first.value.value, str):
                node.body = node.body[isinstance(first, ast.Expr) :]
        elif isinstance(node, ast.Call) and last_name(node.func) == "Field":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "description"]
    return tree


@cache
def read_units(module: str) -> ModuleParts:
    """The parts of a project module."""
    units = ModuleParts(module)
    for statement in without_documentation(ast.parse(path_of(module).read_bytes())).body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound, loaded = imports_of(statement)
            units.imports |= bound
            units.imported += loaded
            continue
        if is_main_block(statement):
            units.main += statement.body
            continue
        if is_settings(statement, units):
            units.records.add(statement.name)
        if is_record(statement, units):
            units.records.add(statement.name)
            methods = [inner for inner in statement.body if separable(inner)]
            units.methods[statement.name] = [method.name for method in methods]
            for method in methods:
                units.definitions.setdefault(f"{statement.name}.{method.name}", []).append(method)
            statement = copy.copy(statement)
            statement.body = [inner for inner in statement.body if not separable(inner)]
        names = bound_names(statement)
        for name in names:
            units.definitions.setdefault(name, []).append(statement)
        if not names or not is_plain(statement, units):
            units.effects.append(statement)
            for inner in ast.walk(statement):  # names that a `try` or `if` binds, as an optional import does
                if isinstance(inner, ast.Import | ast.ImportFrom):
                    bound, loaded = imports_of(inner)
                    units.imports |= bound
                    units.imported += loaded
    return units


def normal_form(node: object) -> object:
    """A syntax tree as nested tuples, the same on every Python version."""
    if isinstance(node, ast.AST):
        fields = ((name, normal_form(value)) for name, value in ast.iter_fields(node) if name not in ("ctx", "kind"))
        return (type(node).__name__, *((name, value) for name, value in fields if value not in (None, ())))
    if isinstance(node, list):
        return tuple(normal_form(value) for value in node)
    return node if node is None else f"{type(node).__name__} {node!r}"
