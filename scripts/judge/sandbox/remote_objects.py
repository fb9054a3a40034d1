"""The judge's side of the channel to the candidate: handles of its objects, and functions of the tests that it calls.

    caller = Caller(Channel(3, 4))
    RemoteReference(caller.request, "triple")(2)      # calls the candidate's function; Raised if it raises

This module is copied into the sandboxes together with `guest.py`. The candidate's process may send anything: values.py
rebuilds each message from trusted types.
"""

import os

from scripts.judge.sandbox.values import BINARY, COMPUTED_BY_CANDIDATE, OPERATORS, exception_of, literal, parsed, update

# Bytes of one message, and characters of an exception's name and text.
LONGEST, LONGEST_TEXT = 16 << 20, 1000


class ChannelClosed(BaseException):
    """The other side closed the channel."""


class Refused(BaseException):
    """The tests do something that cannot be judged across two processes."""


class Raised(Exception):
    """An exception of the candidate."""


class Channel:
    """Messages of one line each over two pipes; `repr` escapes line ends inside a message."""

    def __init__(self, reading: int, writing: int):
        self.reader, self.writer = os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)

    def send(self, text: str) -> None:
        try:
            self.writer.write(text.encode("ascii", "backslashreplace") + b"\n")
        except BrokenPipeError:
            raise ChannelClosed from None

    def receive(self) -> str:
        line = self.reader.readline(LONGEST)
        if len(line) == LONGEST:
            raise ValueError(f"more than {LONGEST} bytes")
        if not line.endswith(b"\n"):
            raise ChannelClosed
        return line.decode("ascii")


class RemoteReference:
    """Represents in the judge an object that stays with the candidate. `number`: of the object, or a name of the
    candidate's; `about`: its class, and the operators that the class says it defines."""

    def __init__(self, request, number, about=("", ())):
        for name, value in {"request": request, "number": number, "about": about}.items():
            object.__setattr__(self, name, value)

    @property
    def __class__(self):
        kind, _ = object.__getattribute__(self, "about")
        return refused(f"the tests ask whether an object of the program's class {kind} is of some class")

    def __getattr__(self, name: str):
        if name.startswith("__array"):  # numpy tries this on any object
            raise AttributeError(name)
        return self.request("get", self, name)

    def __setattr__(self, name: str, value: object) -> None:
        self.request("set", self, name, value)

    def __call__(self, *arguments, **named):
        return self.request("call", self, arguments, named)


def operator(name: str):
    """How a handle answers an operator: as any object where its class defines none, else the judge refuses."""

    def answer(self, *operands):
        kind, defined = object.__getattribute__(self, "about")
        if name not in defined:
            if name in ("__eq__", "__ne__"):
                other = operands[0]
                same_object = type(other) is RemoteReference and other.number == self.number
                return same_object == (name == "__eq__")
            if name == "__hash__":
                return hash(str(self.number))
            if name == "__contains__":
                return operands[0] in list(self)
            if name in BINARY:
                return NotImplemented
            raise TypeError(f"{kind} has no {name}")
        return refused(f"the tests use {name} of the program's class {kind}")

    return answer


def computed_by_candidate(name: str, kind: type):
    """How a handle answers an operator that the candidate may compute itself."""

    def answer(self):
        result = self.request("ask", self, name)
        if type(result) is not kind:
            raise TypeError(f"{name} gave {type(result).__name__}")
        return iter(result) if kind is list else result

    return answer


for method in OPERATORS:
    if method != "__call__":
        setattr(RemoteReference, method, operator(method))
for method in COMPUTED_BY_CANDIDATE:
    setattr(RemoteReference, method, computed_by_candidate(method, COMPUTED_BY_CANDIDATE[method]))

REFUSED = []


def refused(reason: str):
    """Note, where no test can hide it, that the tests cannot be judged. Raises Refused: always."""
    REFUSED.append(reason)
    raise Refused(reason)


class EqualsNothing:
    """Stands for a None that tests may not look at."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return False


class Caller:
    """The judge's side of the channel.

    Attributes:
        applying: whether changes of arguments are made to the tests' own objects.
        depends: whether a function changed its arguments and also returned something.
        silent: whether a function changed its arguments and returned None.
        hiding: whether such a None is replaced by what equals nothing, to see whether the tests look at it.
        answered: whether anything came from the candidate, so that the candidate may be at fault for what follows.
        used: whether the tests asked anything of it.
        ending: whether it raised what may end a loop of the tests, such as one over `map`.
        test_functions: functions of the tests that the candidate holds a reference to.
        in_test_function: whether one of them is running.
    """

    def __init__(self, channel: Channel):
        self.channel, self.applying, self.depends, self.answered = channel, True, False, False
        self.used, self.ending, self.silent, self.hiding = False, False, False, False
        self.test_functions, self.in_test_function = [], False
        self.makers = {
            "kept": lambda number, *about: RemoteReference(self.request, int(number), about),
            "named_by": lambda name: RemoteReference(self.request, str(name)),
            "test_function": lambda number: self.test_functions[int(number)],
        }

    def refer(self, value: object) -> str:
        """How the judge writes an object that is not plain: one of the candidate's, or a function of the tests."""
        if type(value) is RemoteReference:
            number = object.__getattribute__(value, "number")
            if isinstance(number, str):
                return f"named_by({number!r})"
            return f"kept({number})"
        if not callable(value):
            refused(f"the tests pass an object of class {type(value).__name__}")
        self.test_functions.append(value)
        return f"test_function({len(self.test_functions) - 1})"

    def exchange(self, message: str) -> list:
        """The reply to a message; functions of the tests that the candidate calls meanwhile are run here."""
        self.channel.send(message)
        while True:
            line = self.channel.receive()
            self.answered = True
            kind, *reply = parsed(line, self.makers)
            if kind != "callback":
                return [kind, *reply]
            number, arguments, named = reply
            self.in_test_function = True
            try:
                answer = f"['value', {literal(self.test_functions[number](*arguments, **named), self.refer)}]"
            except Exception as error:
                answer = f"['error', {type(error).__name__!a}, {str(error)[:1000]!a}]"
            self.in_test_function = False
            self.channel.send(answer)

    def request(self, verb: str, *arguments) -> object:
        if self.in_test_function:
            refused("a function of the tests, called by the program, calls the program")
        self.used |= verb != "load"
        message = literal([verb, *arguments], self.refer)
        try:
            kind, *reply = self.exchange(message)
            if kind == "value":
                result, same_argument, changed = reply
                if changed is not None:
                    self.changed(arguments[1:], changed, result is not None or same_argument is not None)
                if self.applying and same_argument is not None:
                    return arguments[1][same_argument]
                if changed is not None and result is None and self.hiding:
                    return EqualsNothing()
                return result
            name, text = (str(part)[:LONGEST_TEXT] for part in reply)
            self.ending |= name in ("StopIteration", "StopAsyncIteration")
        except Exception as error:
            name, text = "ValueError", f"no readable reply: {type(error).__name__}"
        raise exception_of(name, text, Raised)

    def changed(self, arguments: tuple, changed: tuple, returned: bool) -> None:
        """Make what the candidate did to its arguments happen to the tests' own. `returned`: whether the call also gave
        a result."""
        self.depends |= returned
        self.silent |= not returned
        if self.applying:
            positional, named = arguments
            update(positional, tuple(changed[0]))
            update(named, changed[1])
