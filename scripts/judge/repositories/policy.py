"""Which names and changes one process accepts from the other, and handles of objects that are not sent.

It is sent into the sandboxes together with object_graph.py.
"""

SHOWN = ("__name__", "__qualname__", "__module__", "__doc__")  # what decorators copy from a function


class RemoteReference:
    """Stands for a function, an iterator or anything else that stayed with the other side.

    It has no comparison, as the other side could claim to equal everything.
    """

    def __init__(self, peer, number: int, about: str):
        self.peer, self.number, self.about = peer, number, about

    def __call__(self, *arguments, **named_arguments):
        return self.peer.request("call", self, list(arguments), named_arguments)

    def __getattr__(self, name: str):
        if name.startswith("__") and name not in SHOWN:
            raise AttributeError(name)
        return self.peer.request("get", self, name)

    def __iter__(self):
        return self if self.about == "iterator" else self.peer.request("iter", self)

    def __len__(self):
        return self.peer.request("len", self)

    def __bool__(self):
        return True

    def __getitem__(self, key):
        return self.peer.request("item", self, key)

    def __next__(self):
        return self.peer.request("next", self)

    def send(self, value):
        return self.peer.request("send", self, value)

    def throw(self, error, *_):
        return self.peer.request("throw", self, error() if isinstance(error, type) else error)

    def close(self):
        return self.peer.request("close", self)


class Policy:
    """What one side may send by name and read by name; here everything.

    Attributes:
        kept: objects that stay here and that the other side has handles of.
    """

    def __init__(self):
        self.kept, self.numbers = [], {}

    def sends(self, name: str) -> bool:
        """Whether the other side knows what this name means."""
        return True

    def reads(self, name: str) -> bool:
        """Whether what this name means may come from the other side."""
        return True

    def changes(self, kind: str) -> bool:
        """Whether the other side may change the content of an object of this kind."""
        return True

    def handle(self, number: int, about: str) -> object:
        return RemoteReference(self, number, about)

    def keep(self, value: object) -> int:
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.kept)
            self.kept.append(value)
        return self.numbers[id(value)]
