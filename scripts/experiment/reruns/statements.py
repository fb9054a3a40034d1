"""Statements of Python: what they define, and hashes of them that comments, docstrings and formatting do not change."""

import ast
import hashlib
from functools import cache
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Decorators that only wrap, and calls that only make a value, as those of a class do: a definition that uses no other
# call does nothing at import but bind its name.
WRAPPING = "abstractmethod cache cached_property classmethod contextmanager dataclass field_validator lru_cache"
WRAPPING += " model_validator njit property staticmethod total_ordering wraps"
MAKING = "arange array bool bytes compile decode deque dict dtype encode enumerate field float format fromkeys"
MAKING += " frozenset get getLogger int int64 itemgetter items join keys len list lower max min namedtuple range"
MAKING += " removeprefix replace set sorted split str strip sum tuple uint32 uint64 upper values zip"
HARMLESS = {*WRAPPING.split(), *MAKING.split()}

# What libraries, and scripts/common/options.py, call or read on our classes belongs to its class, as does what begins
# with `_` or `on_` and what stands under another decorator. All else of a class counts where reached code names it.
HOOKS = {"backward", "construct_mapping", "construct_object", "evaluation_loop", "find_class", "finished", "format"}
HOOKS |= {"forward", "load_state_dict", "lock_warn_only", "model_config", "parse", "started", "step", "tags"}
HOOKS |= {"create_scheduler", "from_json", "training_step"}
OF_METHODS = HARMLESS - {"field_validator", "model_validator"}
# arguments of a setting that say what it is and which values are refused, and never change what a value does
OF_SETTINGS = {"description", "ge", "gt", "le", "lt", "max_length", "min_length", "pattern"}


def last_name(node: ast.expr) -> str:
    """`compile` of `re.compile` and of `re.compile("a")`; empty where there is no name."""
    node = getattr(node, "func", node)
    return getattr(node, "attr", "") or getattr(node, "id", "")


def only_makes_values(node: ast.AST) -> bool:
    """Whether every call in it is one of a class, by its capital, or one that only makes a value."""
    names = [last_name(inner) for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return all(name in HARMLESS or name[:1].isupper() for name in names)


def only_defines(statement: ast.stmt) -> bool:
    """Whether a definition does nothing at import but bind its names."""
    if not isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return only_makes_values(statement)
    if any(last_name(decorator) not in HARMLESS for decorator in statement.decorator_list):
        return False
    if isinstance(statement, FUNCTIONS):
        return True
    body = [inner for inner in statement.body if not isinstance(inner, FUNCTIONS)]
    return not statement.keywords and all(map(only_makes_values, body))


def bound_names(statement: ast.stmt) -> list[str]:
    """The names that a definition or assignment binds; none where it is neither."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    targets = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    if not all(isinstance(target, ast.Name | ast.Tuple) for target in targets):
        return []
    found = []
    for target in targets:
        for part in ast.walk(target):
            if isinstance(part, ast.Name):
                found.append(part.id)
    return found


def members_of(statement: ast.ClassDef) -> dict[str, ast.stmt]:
    """Take out of a class what counts only where reached code names it: methods, values, settings; name → each.

    A setting is a field that `Field` makes: records are made by keywords, so one more shifts none.
    """
    members = {}
    listed = any(last_name(base).endswith("Enum") for base in statement.bases)  # code goes through all its values
    for inner in list(statement.body):
        name = ""
        if isinstance(inner, FUNCTIONS) and OF_METHODS.issuperset(map(last_name, inner.decorator_list)):
            name = inner.name
        elif isinstance(inner, ast.Assign) and not listed and len(bound_names(inner)) == 1:
            name = bound_names(inner)[0]
        elif (
            isinstance(inner, ast.AnnAssign) and isinstance(inner.value, ast.Call) and last_name(inner.value) == "Field"
        ):
            name = inner.target.id
        if name and not name.startswith(("_", "on_")) and name not in HOOKS:
            statement.body.remove(inner)
            members[name] = inner
    return members


def without_quotes(annotation: ast.expr | None) -> ast.expr | None:
    """A quoted annotation as what it says: `"Path"` is `Path`."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def without_documentation(tree: ast.Module) -> ast.Module:
    """The tree less its docstrings, descriptions and bounds of settings, and quotes around annotations; comments are
    not in a tree to begin with."""
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            node.returns = without_quotes(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            node.annotation = without_quotes(node.annotation)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(getattr(first, "value", None), ast.Constant) and isinstance(first.value.value, str):
                node.body = node.body[isinstance(first, ast.Expr) :]
        elif isinstance(node, ast.Call) and last_name(node) == "Field":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in OF_SETTINGS]
    return tree


def normal_form(node: object) -> object:
    """A syntax tree as nested tuples, the same on every Python version: without the fields that are empty, as those are
    that a newer version adds."""
    if isinstance(node, ast.AST):
        fields = ((name, normal_form(value)) for name, value in ast.iter_fields(node) if name not in ("ctx", "kind"))
        return (type(node).__name__, *((name, value) for name, value in fields if value not in (None, ())))
    if isinstance(node, list):
        return tuple(normal_form(value) for value in node)
    return node if node is None else f"{type(node).__name__} {node!r}"


@cache
def digest(statements: tuple[ast.stmt, ...]) -> str:
    """A hash of statements, whatever their comments and formatting."""
    return hashlib.sha256(repr(normal_form(list(statements))).encode()).hexdigest()[:16]


def file_digest(path: Path) -> str:
    """A hash of a file; of a Python file that is run by path, of its statements."""
    content = path.read_bytes()
    if path.suffix == ".py":
        return digest(tuple(without_documentation(ast.parse(content)).body))
    return hashlib.sha256(content).hexdigest()[:16]
