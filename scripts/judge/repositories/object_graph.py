"""Objects as JSON between two processes that hold the same repository: sent into both, so it imports nothing of ours.

    table = Table(Policy())
    message = table.write([point, 3])        # {"value": ..., "new": [nodes], "changed": {}}
    other_table.read(message)                # [equal point, 3]

Both sides number the objects of one call alike. A message holds the objects that are new, and the new content of those
that changed since the last message, so a change made to an argument is made on the other side, too, to the very same
object. What has no content of its own to send (iterators, functions of the tests, anything that cannot be rebuilt)
stays where it is, and the other side gets a handle.

Nothing that is read runs code of its own: classes and functions are looked up by name, and which names may be read is
the `Policy`'s to say.
"""

import collections
import io
import json

from scripts.judge.repositories.object_state import BASES, base_of, named, set_state
from scripts.judge.repositories.object_writer import MOST_NODES, MUTABLE, Writer

VALUES = {
    "tuple": tuple,
    "frozenset": frozenset,
    "bytes": lambda text: text.encode("latin-1"),
    "complex": lambda parts: complex(*parts),
    "range": lambda parts: range(*parts),
    "slice": lambda parts: slice(*parts),
    "constant": lambda name: {"Ellipsis": ..., "NotImplemented": NotImplemented}[name],
}
MISSING = object()


class Unreadable(Exception):
    """A message that may not be read."""


class Table(Writer):
    """The objects of one call, as both sides number them."""

    def read(self, message: dict) -> object:
        """The value of a message of the other side, after all changes.

        Raises:
            Exception: it is no such message, or holds what the policy refuses.
        """
        nodes = message["new"]
        if len(self.objects) + len(nodes) > 2 * MOST_NODES:
            raise Unreadable("too many objects")
        first = len(self.objects)
        self.objects += [MISSING] * len(nodes)
        self.known += [json.dumps(node) if node[0] in MUTABLE else None for node in nodes]
        self.nodes = dict(enumerate(nodes, first))
        for place in range(first, len(self.objects)):
            self.at(place)
        for place, node in message["changed"].items():
            if not 0 <= int(place) < first:
                raise Unreadable("a change of no object")
            self.change(int(place), node)
        return self.at_number(message["value"])

    def at_number(self, written: object) -> object:
        return self.at(written[0]) if isinstance(written, list) else written

    def at(self, place: int) -> object:
        if self.objects[place] is MISSING:
            value, fill = self.rebuilt(self.nodes[place])
            self.objects[place] = value
            self.numbers.setdefault(id(value), place)
            if fill:
                self.fill(value, self.nodes[place])
        return self.objects[place]

    def readable(self, name: str, prefix: str = "") -> object:
        if not self.policy.reads(prefix + name):
            raise Unreadable(f"{prefix}{name}, which the repository's own code does not give here")
        return named(name)

    def rebuilt(self, node: list) -> tuple[object, bool]:
        """An object of a node, and whether its content is still to be filled in."""
        kind, *parts = node
        if kind in ("tuple", "frozenset", "complex", "range", "slice"):
            return VALUES[kind]([self.at_number(item) for item in parts[0]]), False
        if kind in ("keys", "values", "items"):
            items = [self.at_number(item) for item in parts[0]]
            if kind == "values":
                items = enumerate(items)
            return getattr(dict.fromkeys(items) if kind == "keys" else dict(items), kind)(), False
        if kind in VALUES:
            return VALUES[kind](parts[0]), False
        if kind in ("list", "set", "dict", "bytearray"):
            return BASES[kind](), True
        if kind in ("deque", "ordered", "default"):
            constructors = {
                "deque": collections.deque,
                "ordered": collections.OrderedDict,
                "default": collections.defaultdict,
            }
            return (collections.deque(maxlen=parts[1]) if kind == "deque" else constructors[kind]()), True
        if kind in ("stringio", "bytesio"):
            return (io.StringIO(newline="") if kind == "stringio" else io.BytesIO()), True
        if kind == "yours":
            return self.policy.kept[parts[0]], False
        if kind == "mine":
            return self.policy.handle(int(parts[0]), str(parts[1])), False
        if kind == "name":
            return self.readable(parts[0]), False
        if kind == "bound":
            owner = self.at_number(parts[0])
            holder = owner if isinstance(owner, type) else type(owner)
            self.readable(f"{holder.__module__}:{holder.__qualname__}.{parts[1]}", "method ")
            return getattr(owner, parts[1]), False
        if kind == "exception":
            owner = self.readable(parts[0])
            error = owner.__new__(owner, *map(self.at_number, parts[1]))
            error.args = tuple(map(self.at_number, parts[1]))
            set_state(error, self.state(parts[2]))
            return error, False
        if kind == "made":
            value = self.readable(parts[0], "made by ")(*map(self.at_number, parts[1]))
            state = self.at_number(parts[2])
            if state is not None:
                value.__setstate__(state) if hasattr(value, "__setstate__") else set_state(value, state)
            return value, False
        owner, base = self.readable(parts[0]), BASES.get(parts[1], object)
        if kind != "object" or base_of(owner) != base.__name__:
            raise Unreadable(f"no object: {kind}")
        if base in (tuple, frozenset, str, int, float, bytes):
            content = parts[2]
            items = [self.at_number(item) for item in content] if isinstance(content, list) else content
            return base.__new__(owner, items.encode("latin-1") if base is bytes else items), True
        return base.__new__(owner), True

    def state(self, pairs: list) -> dict[str, object]:
        return {str(name): self.at_number(content) for name, content in pairs}

    def fill(self, value: object, node: list) -> None:
        """Give an object the content of a node."""
        kind, content = node[0], node[1]
        if kind == "object":
            kind, content = node[2], node[3]
            set_state(value, self.state(node[4]))
        if kind in ("stringio", "bytesio"):
            value.seek(0)
            value.truncate()
            value.write(content if kind == "stringio" else content.encode("latin-1"))
            value.seek(node[2])
        elif kind == "bytearray":
            bytearray.__setitem__(value, slice(None), content.encode("latin-1"))
        elif kind in ("list", "deque", "set"):
            owner = collections.deque if kind == "deque" else BASES[kind]
            owner.clear(value)
            (set.update if kind == "set" else owner.extend)(value, [self.at_number(item) for item in content])
        elif kind in ("dict", "ordered", "default"):
            owner = {"ordered": collections.OrderedDict}.get(kind, dict)
            owner.clear(value)
            for key, item in content:
                owner.__setitem__(value, self.at_number(key), self.at_number(item))
            if kind == "default":
                value.default_factory = self.at_number(node[2])

    def change(self, place: int, node: list) -> None:
        """Change an object that both sides have."""
        known = json.loads(self.known[place] or "[0]")
        if known[0] != node[0] or (node[0] == "object" and known[1:3] != node[1:3]):
            raise Unreadable("an object of another kind")
        if self.policy.changes(node[1] if node[0] == "object" else node[0]):
            self.fill(self.objects[place], node)
            self.known[place] = json.dumps(node)
