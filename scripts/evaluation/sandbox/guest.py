"""Runs inside the sandboxes, without any other module: a judge that holds the tests, and a candidate that does not.

    python -I -S guest.py judge 3 4 prompt.py tests.py ENTRY    # writes its verdict to standard output
    python -I -S guest.py candidate 3 4 solution.py

The judge runs the tests. If a test uses a name that only the candidate defines, the judge sends name and arguments to
the candidate's process, which replies with the result. Messages are literals: the judge rebuilds plain values of
builtin types, so an object with its own `__eq__`, a patched builtin or an early exit does not reach it. A result of any
other class stays with the candidate; the judge gets a handle that can read its attributes and call it, and that equals
nothing else.
"""

import builtins
import os
import sys

# Bytes of one message.
LONGEST = 16 << 20
# Items read from a returned iterator.
ITEMS = 100_000
# Outcomes that the candidate's side reports by name.
REPORTED = ("compile error", "environment error")
ONLY_AST = 0x400  # a flag of compile(); importing the module `ast` takes as long as everything else here

KINDS = (bool, int, float, complex, str, bytes, list, tuple, dict, set, frozenset, bytearray, range)


def literal(value: object, keep: list) -> str:
    """Source text of `value`, subclasses of builtin types as these types; any other object is appended to `keep`."""
    if value is None:
        return "None"
    if type(value) is Handle:
        return f"kept({object.__getattribute__(value, 'number')!r})"
    kind = next((kind for kind in KINDS if isinstance(value, kind)), None)
    if kind in (list, tuple, set, frozenset):
        items = "".join(literal(item, keep) + "," for item in kind.__iter__(value))
        return f"[{items}]" if kind is list else f"({items})" if kind is tuple else f"{kind.__name__}([{items}])"
    if kind is dict:
        pairs = (f"({literal(key, keep)},{literal(item, keep)})," for key, item in dict.items(value))
        return f"dict([{''.join(pairs)}])"
    if kind is not None:
        return kind.__repr__(value)
    if type(value).__name__ in ("Fraction", "Decimal") and type(value).__module__ in ("fractions", "decimal"):
        return f"{type(value).__name__}({str(value)!r})"
    if hasattr(type(value), "__next__"):
        return f"iter({literal([item for item, _ in zip(value, range(ITEMS), strict=False)], keep)})"
    keep.append(value)
    return f"kept({len(keep) - 1})"


def number(module: str, name: str):
    """A constructor of the standard library, imported on first use."""
    return lambda text: getattr(__import__(module), name)(text)


def parsed(text: str, kept) -> object:
    """The value of a literal as `literal` writes it.

    Args:
        kept: number of a kept object → the value that represents it.

    Raises:
        ValueError, SyntaxError, RecursionError, MemoryError, TypeError: it is not such a literal.
    """
    makers = {kind.__name__: kind for kind in (list, tuple, dict, set, frozenset, bytearray, range, iter)}
    makers |= {"kept": kept, "Fraction": number("fractions", "Fraction"), "Decimal": number("decimal", "Decimal")}

    def value(node) -> object:
        form = type(node).__name__
        if form == "Constant":
            return node.value
        if form in ("Tuple", "List"):
            return (tuple if form == "Tuple" else list)([value(item) for item in node.elts])
        if form == "UnaryOp" and type(node.op).__name__ == "USub":
            return -value(node.operand)
        if form == "BinOp":  # of a complex number
            left, right = value(node.left), value(node.right)
            return left + right if type(node.op).__name__ == "Add" else left - right
        if form == "Name" and node.id in ("inf", "nan"):
            return float(node.id)
        if form == "Call" and node.func.id in makers and not node.keywords:
            return makers[node.func.id](*[value(item) for item in node.args])
        raise ValueError(f"not a literal: {form}")

    return value(compile(text, "literal", "eval", ONLY_AST).body)


class Gone(BaseException):
    """The other side closed the channel."""


class Channel:
    """Messages of one line each over two pipes; `repr` escapes line ends inside a message."""

    def __init__(self, reading: int, writing: int):
        self.reader, self.writer = os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0)

    def send(self, text: str) -> None:
        try:
            self.writer.write(text.encode("ascii", "backslashreplace") + b"\n")
        except BrokenPipeError:
            raise Gone from None

    def receive(self) -> str:
        line = self.reader.readline(LONGEST)
        if len(line) == LONGEST:
            raise ValueError(f"more than {LONGEST} bytes")
        if not line.endswith(b"\n"):
            raise Gone
        return line.decode("ascii")


class Handle:
    """Represents in the judge an object that stays with the candidate."""

    def __init__(self, request, number: int):
        object.__setattr__(self, "request", request)
        object.__setattr__(self, "number", number)

    def __getattr__(self, name: str):
        return self.request("get", self, name)

    def __setattr__(self, name: str, value: object) -> None:
        self.request("set", self, name, value)

    def __call__(self, *arguments, **named):
        return self.request("call", self, arguments, named)


class Raised(Exception):
    """An exception of the candidate."""


def raised(name: str, message: str) -> Raised:
    """A `Raised` that is also the builtin exception of that name, which tests may expect."""
    known = getattr(builtins, name, None)
    try:
        return type(name, (Raised, known), {})(message)
    except TypeError:  # not an exception, or one with other arguments
        return type(name, (Raised,), {})(message)


def undefined(code: object, names: dict) -> set[str]:
    """The names used in a code object and those inside it that neither `names` nor the builtins define."""
    missing = {name for name in code.co_names if name not in names and not hasattr(builtins, name)}
    return missing.union(*(undefined(part, names) for part in code.co_consts if hasattr(part, "co_names")))


def judge(tests: str, names: dict, channel: Channel) -> tuple[str, str]:
    """(outcome, detail) of running the tests, with `names`; other names are the candidate's."""

    def request(verb: str, *arguments) -> object:
        channel.send(literal([verb, *arguments], []))
        try:
            kind, *reply = parsed(channel.receive(), lambda number: Handle(request, int(number)))
            if kind == "value":
                return reply[0]
            error = raised(str(reply[0]), str(reply[1]))
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError, IndexError, ArithmeticError) as wrong:
            error = raised("ValueError", f"no readable reply: {type(wrong).__name__}")
        raise error

    try:
        code = compile(tests, "tests", "exec")
        request("load")
        names |= {name: Handle(request, name) for name in undefined(code, names)}
        exec(code, names)  # noqa: S102, the tests, in a sandbox
    except Gone:
        return "gone", ""
    except Raised as error:
        name = type(error).__name__
        outcome = {"MemoryError": "memory"}.get(name, name if name in REPORTED else "exception")
        return outcome, str(error) if name in REPORTED else f"{name}: {error}"
    except BaseException as error:
        # not only assertions: a wrong result may also break the test's own computation, as `f(1) + 1` for None
        return "wrong", f"{type(error).__name__}: {error}"[:1000]
    return "passed", ""


def described(error: BaseException) -> tuple[str, str]:
    """(kind, message) of an exception in the candidate."""
    missing = isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] not in sys.stdlib_module_names
    return ("environment error" if missing else type(error).__name__), str(error)[:1000]


def candidate(source: str, channel: Channel) -> None:
    """Serve requests until the judge is gone. The code that runs here can change all of this; the judge trusts none."""
    names, keep = {"__name__": "solution"}, []

    def kept(number: object) -> object:
        if number in names:
            return names[number]
        if isinstance(number, str):
            raise NameError(f"name {number!r} is not defined")
        return keep[number]

    def serve(verb: str, arguments: list) -> object:
        if verb == "load":
            return exec(compile(source, "solution.py", "exec"), names)  # noqa: S102, in a sandbox
        if verb == "get":
            return getattr(*arguments)
        if verb == "set":
            return setattr(*arguments)
        function, given, named = arguments
        return function(*given, **named)

    while True:
        verb = None
        try:
            verb, *arguments = parsed(channel.receive(), kept)
            reply = f"['value', {literal(serve(verb, arguments), keep)}]"
        except Gone:
            sys.exit()
        except BaseException as error:
            kind, message = described(error)
            if verb == "load" and isinstance(error, SyntaxError):
                kind, message = "compile error", f"{kind}: {message}"
            reply = f"['error', {kind!a}, {message!a}]"
        channel.send(reply)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123, pathlib takes long to import
        return file.read()


def main() -> None:
    role, reading, writing, *paths = sys.argv[1:]
    sys.argv, channel = [role], Channel(int(reading), int(writing))
    sys.set_int_max_str_digits(0)
    if role == "candidate":
        return candidate(read(paths[0]), channel)
    names, outcome = {"__name__": "tests"}, None
    with os.fdopen(os.dup(1), "w", errors="backslashreplace") as verdict:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123, tests may print
        try:
            exec(compile(read(paths[0]), "prompt", "exec"), names)  # noqa: S102, the benchmark's own, in a sandbox
        except BaseException as error:
            outcome = "sandbox error", f"the problem's own prompt: {type(error).__name__}: {error}"
        names.pop(paths[2], None)  # the prompt's function without a body
        verdict.write(repr(outcome or judge(read(paths[1]), names, channel)))
    os._exit(0)  # shutting the interpreter down would take as long as many tests


if __name__ == "__main__":
    main()
