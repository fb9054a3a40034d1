"""Take objects apart: the name of the class, the attributes, the builtin base class.

    name_of(collections.deque)      # "collections:deque"
    state_of(Point(1, 2))           # {"x": 1, "y": 2}

It is sent into the sandboxes together with object_graph.py.
"""

import importlib
import sys
import types

ATOMS = (type(None), bool, int, float, str)
BASES = {base.__name__: base for base in (dict, list, tuple, set, frozenset, str, int, float, bytes, bytearray)}
HEAP_TYPE = 1 << 9


def name_of(value: object) -> str | None:
    """`module:qualified.name` of a module, class or function that this name leads to; None of any other."""
    if isinstance(value, types.ModuleType):
        return f"{value.__name__}:"
    owner = getattr(value, "__objclass__", value)
    module, name = getattr(owner, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    value_of_name = sys.modules.get(module)
    for part in name.split("."):
        value_of_name = getattr(value_of_name, part, None)
    return f"{module}:{name}" if value_of_name is value else None


def named(name: str) -> object:
    """What `name_of` gave this name."""
    module, _, path = name.partition(":")
    value = importlib.import_module(module)
    for part in filter(None, path.split(".")):
        value = getattr(value, part)
    return value


def slots(kind: type) -> list[str]:
    """The names of the slots of a class and its bases, as attributes."""
    names = []
    for owner in kind.__mro__:
        declared = owner.__dict__.get("__slots__", ())
        for name in [declared] if isinstance(declared, str) else list(declared):
            if name not in ("__dict__", "__weakref__"):
                hidden = name.startswith("__") and not name.endswith("__")
                names.append(f"_{owner.__name__.lstrip('_')}{name}" if hidden else name)
    return names


def base_of(kind: type) -> str | None:
    """The builtin class that a class written in Python adds to, `object` if none; None of classes with hidden state."""
    base = next(owner for owner in kind.__mro__ if not owner.__flags__ & HEAP_TYPE)
    if base is not object and BASES.get(base.__name__) is not base:
        return None
    # a class made by a class statement is larger only by its slots, its __dict__ and its weak references
    return base.__name__ if kind.__basicsize__ - base.__basicsize__ <= 8 * (len(slots(kind)) + 2) else None


def state_of(value: object) -> dict[str, object]:
    """The attributes that an object holds itself."""
    state = dict(getattr(value, "__dict__", None) or {})
    for name in slots(type(value)):
        try:
            state[name] = object.__getattribute__(value, name)
        except AttributeError:
            continue
    return state


def set_state(value: object, state: dict[str, object]) -> None:
    attributes = getattr(value, "__dict__", None)
    named_slots = slots(type(value))
    for name in named_slots:
        if name in state:
            object.__setattr__(value, name, state[name])
    if attributes is not None:
        attributes.clear()
        attributes.update({name: content for name, content in state.items() if name not in named_slots})


CONSTANTS = {}


def constants() -> dict[int, str]:
    """The names of the objects that the repository's modules hold, by their id."""
    if CONSTANTS.get("modules") != len(sys.modules):
        CONSTANTS.clear()
        CONSTANTS["modules"] = len(sys.modules)
        for module_name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", "")).startswith("/repo/"):
                for name, value in list(vars(module).items()):
                    CONSTANTS.setdefault(id(value), f"{module_name}:{name}")
    return CONSTANTS
