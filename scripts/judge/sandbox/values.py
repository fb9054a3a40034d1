"""Values as text between judge and candidate: `literal` writes them, `parsed` rebuilds them from types that it trusts.

    parsed(literal([1, (2,)], refer), makers) == [1, (2,)]

It is sent into the sandboxes together with `guest.py`, so it imports nothing of this project. Subclasses of builtin
types become these types, so none of their own methods reaches the judge. Anything else stays where it is: the other
side gets a text that the caller's `refer` writes and its `makers` read.
"""

import builtins

# Items read from a returned iterator.
ITEMS = 100_000
ONLY_AST = 0x400  # a flag of compile(); importing the module `ast` takes as long as everything else here

KINDS = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, bytearray, range)
MUTABLE = ("list", "dict", "set", "bytearray", "deque", "OrderedDict", "Counter", "defaultdict")

# Operators that the candidate keeps to itself: they would tell it what the tests expect.
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "hash", "contains", "getitem", "setitem", "delitem", "call")
ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "divmod")
UNARY = ("neg", "pos", "abs", "invert", "int", "float", "complex", "index", "round", "enter")
REFLECTED = tuple(f"r{name}" for name in ARITHMETIC)
OPERATORS = [f"__{name}__" for name in (*COMPARED, *ARITHMETIC, *REFLECTED, *UNARY)]
BINARY = {f"__{name}__" for name in ("lt", "le", "gt", "ge", *ARITHMETIC, *REFLECTED)}
# Operators whose result the candidate may compute, as they tell it nothing of what the tests expect.
COMPUTED_BY_CANDIDATE = {"__bool__": bool, "__len__": int, "__str__": str, "__repr__": str, "__iter__": list}

# What classes of the standard library are rebuilt from: module and class → the arguments of its constructor.
REBUILT = {
    ("fractions", "Fraction"): lambda value: (str(value),),
    ("decimal", "Decimal"): lambda value: (str(value),),
    ("datetime", "date"): lambda value: (value.year, value.month, value.day),
    ("datetime", "time"): lambda value: (value.hour, value.minute, value.second, value.microsecond, value.tzinfo),
    ("datetime", "datetime"): lambda value: (*value.timetuple()[:6], value.microsecond, value.tzinfo),
    ("datetime", "timedelta"): lambda value: (value.days, value.seconds, value.microseconds),
    ("datetime", "timezone"): lambda value: (value.utcoffset(None),),
    ("collections", "deque"): lambda value: (list(value), value.maxlen),
    ("collections", "OrderedDict"): lambda value: (list(value.items()),),
    ("collections", "Counter"): lambda value: (dict(value.items()),),
    ("collections", "defaultdict"): lambda value: (None, list(value.items())),
    ("uuid", "UUID"): lambda value: (str(value),),
    ("numpy", "ndarray"): lambda value: (value.tolist(), value.dtype.str),
}
# numpy's types of one number, as an array's type is written
NUMBERS = {
    "|b1",
    "|i1",
    "|u1",
    *(f"<{kind}" for kind in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")),
}
VIEWS = {"dict_keys": "keys", "dict_values": "values", "dict_items": "items"}


def literal(value: object, refer) -> str:
    """Source text of a value. `refer`: writes an object of any other class."""
    if value is None:
        return "None"
    value_type = type(value)
    if (value_type.__module__, value_type.__name__) in REBUILT:
        arguments = REBUILT[value_type.__module__, value_type.__name__](value)
        return f"{value_type.__name__}({','.join(literal(part, refer) for part in arguments)})"
    if value_type.__module__ == "numpy" and hasattr(value_type, "item") and value.dtype.str in NUMBERS:
        return f"number({value.dtype.str!r},{literal(value.item(), refer)})"
    kind = next((kind for kind in KINDS if issubclass(value_type, kind)), None)
    if kind is tuple and hasattr(value_type, "_fields"):
        return (
            f"named({value_type.__name__!r},{literal(list(value_type._fields), refer)},{literal(list(value), refer)})"
        )
    if kind in (list, tuple, set, frozenset):
        items = "".join(literal(item, refer) + "," for item in kind.__iter__(value))
        if kind is tuple:
            return f"({items})"
        if kind is list:
            return f"[{items}]"
        return f"{kind.__name__}([{items}])"
    if kind is dict:
        pairs = (f"({literal(key, refer)},{literal(item, refer)})," for key, item in dict.items(value))
        return f"dict([{''.join(pairs)}])"
    if kind is complex:  # its own text loses the sign of a zero
        return f"complex({value.real!r},{value.imag!r})"
    if kind is not None:
        return kind.__repr__(value)
    if value_type.__module__ == "builtins" and value_type.__name__ in VIEWS:
        return f"{VIEWS[value_type.__name__]}({literal(list(value), refer)})"
    if value_type is type and value in KINDS:
        return f"kind({value.__name__!r})"
    if hasattr(value_type, "__next__"):
        maker = "iter"
        if value_type.__name__ == "generator":
            maker = "generator"
        return f"{maker}({literal([item for item, _ in zip(value, range(ITEMS), strict=False)], refer)})"
    return refer(value)


def constructor(module: str, name: str):
    """A constructor of a module that is imported on first use."""
    attribute = {"ndarray": "array"}.get(name, name)
    return lambda *arguments: getattr(__import__(module), attribute)(*arguments)


def named(name: str, names: list[str], items: list) -> tuple:
    """A tuple whose items have names."""
    return __import__("collections").namedtuple(name, names)(*items)


def number(kind: str, value: object) -> object:
    """A number of one of numpy's types."""
    if kind not in NUMBERS:
        raise ValueError(f"not a number: {kind}")
    return __import__("numpy").dtype(kind).type(value)


def kind_of(name: str) -> type:
    return next(kind for kind in KINDS if kind.__name__ == name)


MAKERS = {kind.__name__: kind for kind in (list, tuple, dict, set, frozenset, bytearray, range, complex, iter)}
MAKERS |= {name: constructor(module, name) for module, name in REBUILT} | {
    "kind": kind_of,
    "named": named,
    "number": number,
}
MAKERS |= {
    "generator": lambda items: (item for item in items),
    "keys": lambda items: dict.fromkeys(items).keys(),
    "values": lambda items: dict(enumerate(items)).values(),
    "items": lambda items: dict(items).items(),
}


def parsed(text: str, makers: dict) -> object:
    """The value of a text that `literal` wrote.

    Args:
        makers: what makes the values of further calls, by name.

    Raises:
        Exception: it is not such a text, or names a module that is not there.
    """
    makers = MAKERS | makers

    def value(node) -> object:
        form = type(node).__name__
        if form == "Constant":
            return node.value
        if form in ("Tuple", "List"):
            return (tuple if form == "Tuple" else list)([value(item) for item in node.elts])
        if form == "UnaryOp" and type(node.op).__name__ == "USub":
            return -value(node.operand)
        if form == "Name" and node.id in ("inf", "nan"):
            return float(node.id)
        if form == "Call" and node.func.id in makers and not node.keywords:
            return makers[node.func.id](*[value(item) for item in node.args])
        raise ValueError(f"not a literal: {form}")

    return value(compile(text, "literal", "eval", ONLY_AST).body)


def update(old: object, new: object) -> object:
    """`old` with the content of `new`, itself where it can be changed in place, as can its items."""
    if type(old) is not type(new):
        return new
    name = type(old).__name__
    if name in ("list", "deque"):
        old_items = list(old)
        merged = [
            update(old_items[index], item) if index < len(old_items) else item for index, item in enumerate(list(new))
        ]
        old.clear()
        old.extend(merged)
    elif name in ("dict", "OrderedDict", "Counter", "defaultdict"):
        merged = {key: update(old[key], item) if key in old else item for key, item in new.items()}
        old.clear()
        for key, item in merged.items():
            old[key] = item
    elif name == "set":
        old.clear()
        old.update(new)
    elif name == "bytearray":
        old[:] = new
    elif name == "tuple" and len(old) == len(new):
        merged = tuple(map(update, old, new))
        if all(old_item is new_item for old_item, new_item in zip(old, merged, strict=True)):
            return old
        return merged
    else:
        return new
    return old


def changeable(value: object) -> bool:
    """Whether a value, or a value inside it, can be changed in place."""
    if type(value).__name__ in MUTABLE:
        return True
    return isinstance(value, tuple) and any(changeable(item) for item in tuple.__iter__(value))


def own_methods(value: object) -> list[str]:
    """The names of the operators that an object's class defines itself."""
    return [name for name in OPERATORS if getattr(type(value), name, None) is not getattr(object, name, None)]


def exception_of(name: str, message: str, base: type) -> BaseException:
    """An exception of class `base` that is also the builtin exception of that name, which tests may expect."""
    known = getattr(builtins, name, None)
    if not name.isprintable():  # as half of a surrogate pair, which cannot be in the name of a class
        name = "Exception"
    try:
        return type(name, (base, known), {})(message)
    except TypeError:  # not an exception, or one with other arguments
        return type(name, (base,), {})(message)
