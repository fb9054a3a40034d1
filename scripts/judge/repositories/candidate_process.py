"""Runs inside a sandbox: the process with the candidate, and without tests.

    python -I -S candidate.pyc '{"reading": 3, "writing": 4, "roots": ["/repo"], "folders": [], "module": "a.b", ...}'

It imports the module that the candidate stands in and calls its function with what the other process sends. Nothing
that happens here is trusted there.
"""

import gc
import importlib
import json
import sys
import types

from scripts.judge.repositories.calls import RpcPeer


def raw_function(qualified_name: str, line: int) -> types.FunctionType:
    """The function of this name and line without its decorators."""
    for value in gc.get_objects():
        if isinstance(value, types.FunctionType):
            code = value.__code__
            if (code.co_qualname, code.co_firstlineno) == (qualified_name, line):
                return value
    raise LookupError(f"no function {qualified_name} in line {line}")


class Candidate(RpcPeer):
    """Serves calls of one function."""

    def __init__(self, config: dict):
        super().__init__(config["reading"], config["writing"])
        names = config["names"]  # None: all
        self.allowed = None if names is None else {name.rpartition(" ")[2] for name in names}
        try:
            importlib.import_module(config["module"])
            self.function = raw_function(config["function"], config["line"])
        except BaseException as error:
            kind = "compile error" if isinstance(error, SyntaxError) else "import error"
            self.send({"kind": "fault", "value": f"{kind}: {type(error).__name__}: {error}"})
            sys.exit(0)

    def reads(self, name: str) -> bool:
        if self.allowed is not None:
            self.allowed.add(name.rpartition(" ")[2])  # what the other side named it knows
        return True

    def sends(self, name: str) -> bool:
        return self.allowed is None or name in self.allowed or name.startswith("builtins:")

    def perform(self, verb: str, parts: list) -> object:
        if verb != "run":
            return super().perform(verb, parts)
        (values,) = parts
        code = self.function.__code__
        names = code.co_varnames
        count = code.co_argcount
        positional = [values[name] for name in names[:count]]
        named_arguments = {name: values[name] for name in names[count : count + code.co_kwonlyargcount]}
        place = count + code.co_kwonlyargcount
        if code.co_flags & 0x04:
            positional += values[names[place]]
            place += 1
        if code.co_flags & 0x08:
            named_arguments |= values[names[place]]
        return self.function(*positional, **named_arguments)


def main() -> None:
    config = json.loads(sys.argv[1])
    sys.argv = ["candidate"]
    sys.path[:0] = config["roots"]
    sys.path += config["folders"]
    sys.set_int_max_str_digits(0)
    Candidate(config).serve_all()


if __name__ == "__main__":
    main()
