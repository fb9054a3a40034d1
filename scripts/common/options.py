"""The options of a script: those of a function's parameters, or of an argument parser.

run(command(pack))     # `--dataset`, `--tokenizer`, `--length` and `--out`, as pack(dataset: Path, ...) has them
"""

import argparse
import inspect
import json
import types
import typing
from collections.abc import Callable, Sequence


def command(function: Callable[..., object], doc: str | None = None) -> Callable[[], object]:
    """The function with what the command line gives for its parameters; see `given`."""
    return lambda: function(**given(function, doc))


def given(function: Callable[..., object], doc: str | None = None) -> dict[str, object]:
    """What the command line gives for the parameters of a script's function: `--out` for `out: Path`.

    A list takes several values, at least one if it is required, a bool none; a dict, and a record that has `from_json`,
    take JSON. What has no default is required. `doc`: the help, by default the docstring of the function's module.
    """
    options = parser(doc or inspect.getmodule(function).__doc__)
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind, facts = parameter.annotation, {"default": parameter.default}
        if parameter.default is parameter.empty:
            facts = {"required": True}
        if isinstance(kind, types.UnionType):  # with None
            kind = typing.get_args(kind)[0]
        if typing.get_origin(kind) in (list, Sequence):
            kind, facts["nargs"] = typing.get_args(kind)[0], "+" if "required" in facts else "*"
        if kind is bool:
            facts["action"] = "store_true"
        elif hasattr(kind, "from_json"):
            facts["type"] = kind.from_json
        elif dict in (kind, typing.get_origin(kind)):
            facts["type"] = json.loads
        else:
            facts["type"] = kind
        options.add_argument(f"--{name.replace('_', '-')}", **facts)
    return vars(options.parse_args())


def parser(doc: str) -> argparse.ArgumentParser:
    """An argument parser whose help is the module's docstring; `@FILE` is replaced by the lines of that file."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@"
    )
