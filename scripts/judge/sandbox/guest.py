"""Runs inside the sandboxes, without any other module: a judge that holds the tests, and a candidate that does not.

    python -I -S guest.py judge 3 4 prompt.py tests.py NAMES FOLDER...   # writes its verdict to standard output
    python -I -S guest.py candidate 3 4 solution.py FOLDER...

The judge runs the tests. If a test uses a name that only the candidate defines, the judge sends name and arguments to
the candidate's process, which replies with the result and with what became of the arguments. Messages are literals: the
judge rebuilds plain values (values.py), so an object with its own `__eq__`, a patched builtin or an early exit does not
reach it. A result of any other class stays with the candidate; the judge gets a handle that can read its attributes and
call it. A function of the tests likewise stays with the judge. What would let the candidate see what the tests expect,
as comparing or adding to such a handle, is refused by name.

NAMES are those that are the candidate's even where a builtin has the same; FOLDERs hold packages.
"""

import builtins
import os
import sys

from scripts.judge.sandbox.remote_objects import (
    REFUSED,
    Caller,
    Channel,
    ChannelClosed,
    Raised,
    Refused,
    RemoteReference,
)
from scripts.judge.sandbox.values import changeable, exception_of, literal, own_methods, parsed

# Outcomes that the candidate's side reports by name.
REPORTED = ("compile error", "environment error")


def undefined(code: object, names: dict) -> set[str]:
    """The names used in a code object and those inside it that neither `names` nor the builtins define."""
    missing = {name for name in code.co_names if name not in names and not hasattr(builtins, name)}
    return missing.union(*(undefined(part, names) for part in code.co_consts if hasattr(part, "co_names")))


def judge(tests: str, names: dict, candidate_names: list[str], channel: Channel) -> tuple[str, str]:
    """(outcome, detail) of running the tests with `names`; `candidate_names` and unknown names are the candidate's."""
    try:
        code = compile(tests, "tests", "exec")
    except (SyntaxError, ValueError) as error:
        return "test error", f"the tests: {type(error).__name__}: {error}"
    caller = Caller(channel)
    outcome = once(code, dict(names), candidate_names, caller)
    if outcome[0] == "passed" and caller.depends:
        # passed while arguments changed under the tests, as `f(x) == sorted(x)` does where f empties x
        caller.applying = False
        if once(code, dict(names), candidate_names, caller)[0] != "passed":
            return "unjudged", "the program changes its argument and returns a value, and the tests use both"
    elif outcome[0] == "passed" and caller.silent:
        # a function that works in place returns None, which its tests do not look at; None may also be what a test
        # computes from an emptied argument
        caller.hiding = True
        if once(code, dict(names), candidate_names, caller)[0] != "passed":
            caller.hiding = caller.applying = False
            if once(code, dict(names), candidate_names, caller)[0] != "passed":
                return "unjudged", "the program changes its argument and returns None, and the tests use both"
    return outcome


def once(code: object, names: dict, candidate_names: list[str], caller: Caller) -> tuple[str, str]:
    """(outcome, detail) of one run of the tests."""
    try:
        caller.request("load")
        caller.answered = False
        names |= {name: RemoteReference(caller.request, name) for name in undefined(code, names).union(candidate_names)}
        names["__remote__"] = lambda name: RemoteReference(caller.request, name)
        exec(code, names)  # noqa: S102, the tests, in a sandbox
    except ChannelClosed:
        return "gone", ""
    except Refused as error:
        return "unjudged", str(error)
    except Raised as error:
        name = type(error).__name__
        outcome = {"MemoryError": "memory"}.get(name, name if name in REPORTED else "exception")
        return outcome, str(error) if name in REPORTED else f"{name}: {error}"
    except MemoryError as error:
        return "memory", f"the tests: {error}"
    except BaseException as error:
        # not only assertions: a wrong result may also break the test's own computation, as `f(1) + 1` for None; but
        # before the first result, or for want of a module, the tests themselves are at fault
        fault = isinstance(error, ImportError) or not caller.answered
        return "test error" if fault else "wrong", f"{type(error).__name__}: {error}"[:1000]
    if REFUSED:
        return "unjudged", REFUSED[0]
    if caller.ending:
        return "unjudged", "the program raises StopIteration, which may have ended a loop of the tests"
    if caller.used:
        return ("passed", "")
    return ("test error", "the tests never use the program")


def described(error: BaseException) -> tuple[str, str]:
    """(kind, message) of an exception in the candidate."""
    missing = isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] not in sys.stdlib_module_names
    return ("environment error" if missing else type(error).__name__), str(error)[:1000]


class Server:
    """The candidate's side. The code that runs here can change all of this; the judge trusts none of it."""

    def __init__(self, source: str, channel: Channel):
        self.source, self.channel, self.names, self.keep, self.numbers = source, channel, {}, [], {}
        self.makers = {
            "kept": lambda number: self.keep[number],
            "named_by": self.named_by,
            "test_function": self.function,
        }

    def named_by(self, name: str) -> object:
        """What the program has by a name, or, with dots, a module that it has imported."""
        module, _, own = name.rpartition(".")
        if module in sys.modules:
            return getattr(sys.modules[module], own)
        if name not in self.names:
            raise NameError(f"name {name!r} is not defined")
        return self.names[name]

    def function(self, number: int):
        """A function that the judge runs."""

        def test_function(*arguments, **named):
            self.channel.send(f"['callback', {number}, {self.text([arguments, named])[1:-2]}]")
            kind, *reply = parsed(self.channel.receive(), self.makers)
            if kind == "value":
                return reply[0]
            raise exception_of(str(reply[0]), str(reply[1]), Exception)

        test_function.stays_with_judge = number
        return test_function

    def refer(self, value: object) -> str:
        if hasattr(value, "stays_with_judge"):
            return f"test_function({value.stays_with_judge!r})"
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.keep)
            self.keep.append(value)
        kind = f"{type(value).__module__}.{type(value).__name__}"
        return f"kept({self.numbers[id(value)]},{kind!r},{tuple(own_methods(value))!r})"

    def text(self, value: object) -> str:
        return literal(value, self.refer)

    def serve(self, verb: str, arguments: list) -> str:
        """The reply to a request, as text."""
        same_argument = changed = result = None
        if verb == "load":
            self.names.clear()
            self.names["__name__"] = "solution"
            exec(compile(self.source, "solution.py", "exec"), self.names)  # noqa: S102, in a sandbox
        elif verb == "get":
            result = getattr(*arguments)
        elif verb == "set":
            setattr(*arguments)
        elif verb == "ask":
            value, name = arguments
            result = {"__bool__": bool, "__len__": len, "__str__": str, "__repr__": repr, "__iter__": list}[name](value)
        else:
            function, positional, named = arguments
            watched = [*positional, *named.values()]
            before = None
            if any(map(changeable, watched)):
                before = self.text(watched)
            result = function(*positional, **named)
            if before is not None:
                same_argument = next(
                    (index for index, value in enumerate(positional) if value is result and changeable(value)), None
                )
                changed = None
                if self.text(watched) != before:
                    changed = self.text([positional, named])
        return f"['value', {self.text(result)}, {same_argument}, {changed}]"

    def run(self) -> None:
        """Serve requests until the judge is gone."""
        while True:
            verb = None
            try:
                verb, *arguments = parsed(self.channel.receive(), self.makers)
                reply = self.serve(verb, arguments)
            except ChannelClosed:
                sys.exit()
            except BaseException as error:
                kind, message = described(error)
                if verb == "load" and isinstance(error, SyntaxError):
                    kind, message = "compile error", f"{kind}: {message}"
                reply = f"['error', {kind!a}, {message!a}]"
            self.channel.send(reply)


def read(path: str) -> str:
    with open(path, encoding="utf-8") as file:  # noqa: PTH123, pathlib takes long to import
        return file.read()


def main() -> None:
    role, reading, writing, *rest = sys.argv[1:]
    sys.argv, channel = [role], Channel(int(reading), int(writing))
    sys.set_int_max_str_digits(0)
    if role == "candidate":
        solution, *folders = rest
        sys.path += folders
        return Server(read(solution), channel).run()
    prompt, tests, candidate_names, *folders = rest
    sys.path += folders
    names, outcome = {"__name__": "tests"}, None
    with os.fdopen(os.dup(1), "w", errors="backslashreplace") as verdict:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123, tests may print
        try:
            exec(compile(read(prompt), "prompt", "exec"), names)  # noqa: S102, the benchmark's own, in a sandbox
        except BaseException as error:
            outcome = "test error", f"the problem's own prompt: {type(error).__name__}: {error}"
        for name in candidate_names.split():
            names.pop(name, None)  # the prompt's function without a body
        verdict.write(repr(outcome or judge(read(tests), names, candidate_names.split(), channel)))
    os._exit(0)  # shutting the interpreter down would take as long as many tests


if __name__ == "__main__":
    main()
