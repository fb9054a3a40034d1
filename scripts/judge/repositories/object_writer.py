"""Write objects as JSON for a process that holds the same repository; object_graph.py reads them.

It is sent into the sandboxes together with object_graph.py.
"""

import collections
import copyreg
import enum
import io
import json
import types

from scripts.judge.repositories.object_state import ATOMS, BASES, base_of, constants, name_of, state_of
from scripts.judge.repositories.policy import Policy, RemoteReference

MOST_NODES = 20_000  # of one call
MUTABLE = ("list", "set", "dict", "bytearray", "deque", "ordered", "default", "object", "stringio", "bytesio")
VIEWS = {type({}.keys()): "keys", type({}.values()): "values", type({}.items()): "items"}
NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


class Unsendable(Exception):
    """An object that cannot be sent."""


class Writer:
    """The objects of one call, and how they are written."""

    def __init__(self, policy: Policy):
        self.policy, self.objects, self.numbers, self.known = policy, [], {}, []

    def number(self, value: object) -> object:
        """How a value stands inside a node: itself if it is a plain constant, else `[number]`."""
        if type(value) in ATOMS:
            return value
        if id(value) not in self.numbers:
            if len(self.objects) >= MOST_NODES:
                raise Unsendable(f"more than {MOST_NODES} objects")
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return [self.numbers[id(value)]]

    def items(self, values) -> list:
        return [self.number(value) for value in values]

    def pairs(self, mapping) -> list:
        return [[self.number(key), self.number(value)] for key, value in mapping]

    def content(self, base: str, value: object) -> object:
        """The content of a builtin value."""
        if base in ("list", "tuple"):
            return self.items(BASES[base].__iter__(value))
        if base in ("set", "frozenset"):
            return sorted(
                self.items(BASES[base].__iter__(value)), key=json.dumps
            )  # their order differs from run to run
        if base == "dict":
            return self.pairs(dict.items(value))
        if base in ("bytes", "bytearray"):
            return bytes(value).decode("latin-1")
        return {"str": str.__str__, "int": int.__int__, "float": float.__float__}.get(base, lambda value: None)(value)

    def named(self, value: object) -> str | None:
        """The name by which the other side knows a class, function or module."""
        name = name_of(value)
        return name if name and self.policy.sends(name) else None

    def constant(self, value: object) -> str | None:
        """The name of an object without attributes, as the mark of a missing argument, in its module."""
        name = None if state_of(value) else constants().get(id(value))
        return name if name and self.policy.sends(name) else None

    def node(self, value: object) -> list:
        """An object with numbers for those inside it."""
        kind = type(value)
        if kind is RemoteReference:
            return ["yours", value.number]
        if kind in (complex, range, slice):
            parts = (value.real, value.imag) if kind is complex else (value.start, value.stop, value.step)
            return [kind.__name__, self.items(parts)]
        if value is ... or value is NotImplemented:
            return ["constant", repr(value)]
        if BASES.get(kind.__name__) is kind:
            return [kind.__name__, self.content(kind.__name__, value)]
        if kind is collections.deque:
            return ["deque", self.items(value), value.maxlen]
        if kind is collections.OrderedDict:
            return ["ordered", self.pairs(value.items())]
        if kind is collections.defaultdict:
            return ["default", self.pairs(value.items()), self.number(value.default_factory)]
        if kind in VIEWS:
            return [VIEWS[kind], self.items(value)]
        if kind is io.StringIO and not value.closed:
            return ["stringio", value.getvalue(), value.tell()]
        if kind is io.BytesIO and not value.closed:
            return ["bytesio", value.getvalue().decode("latin-1"), value.tell()]
        if (callable(value) or isinstance(value, types.ModuleType)) and (name := self.named(value)):
            return ["name", name]
        bound = getattr(value, "__self__", None)
        if isinstance(value, types.MethodType | types.BuiltinFunctionType) and not isinstance(bound, types.ModuleType):
            owner = bound if isinstance(bound, type) else type(bound)
            if self.named(owner) and (owner is bound or base_of(owner)):
                return ["bound", self.number(bound), value.__name__]
        elif hasattr(kind, "__next__") and base_of(kind) is None:
            return ["mine", self.policy.keep(value), "iterator"]
        elif (name := self.named(kind)) and not isinstance(value, NAMED):
            if isinstance(value, BaseException):
                return ["exception", name, self.items(value.args), self.pairs(state_of(value).items())]
            base = not isinstance(value, enum.Enum) and base_of(kind)
            if base:
                if base == "object" and (constant := self.constant(value)):
                    return ["name", constant]
                return ["object", name, base, self.content(base, value), self.pairs(state_of(value).items())]
            reduced = self.reduced(value)
            if reduced:
                return reduced
        return ["mine", self.policy.keep(value), "function" if callable(value) else "opaque"]

    def reduced(self, value: object) -> list | None:
        """A value by what makes it, as pickle would; None if there is no such thing."""
        try:
            reduced = copyreg.dispatch_table.get(type(value), lambda value: value.__reduce_ex__(2))(value)
        except Exception:
            return None
        if not isinstance(reduced, tuple) or len(reduced) < 2 or any(part is not None for part in reduced[3:]):
            return None
        maker, arguments, state = (*reduced, None)[:3]
        name = self.named(maker)
        if name is None or name.startswith(f"{copyreg.__name__}:"):
            return None
        return ["made", name, self.items(arguments), self.number(state)]

    def write(self, value: object) -> dict:
        """A message that holds a value and all that changed.

        Raises:
            Unsendable: it holds too much.
        """
        first, changed = len(self.objects), {}
        for place in range(first):
            if self.known[place] is not None:
                node = self.node(self.objects[place])
                text = json.dumps(node)
                if text != self.known[place]:
                    self.known[place], changed[place] = text, node
        written, new = self.number(value), []
        while len(self.known) < len(self.objects):
            new.append(self.node(self.objects[len(self.known)]))
            self.known.append(json.dumps(new[-1]) if new[-1][0] in MUTABLE else None)
        return {"value": written, "new": new, "changed": changed}
