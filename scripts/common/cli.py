"""The command line of every script: an argument parser, log lines with the time, one-line errors for users.

A script ends with `if __name__ == "__main__": run(pack)`: the parameters of the function are the script's options.
"""

import argparse
import codecs
import gc
import inspect
import json
import locale
import logging
import os
import sys
import types
import typing
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from scripts.common.disk import disk_fault
from scripts.common.errors import UserError, error_line


def run(main: Callable[..., object]) -> None:
    """Set up logging and call `main`, with what the command line gives for its parameters; a UserError or a full disk
    ends as one line, a bug keeps its traceback."""
    use_utf_8()
    gc.freeze()  # what was imported is not searched, neither now nor when the process ends
    gc.enable()  # scripts/__init__.py switched it off
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    leave_out_what_libraries_say()
    try:
        main(**given(main) if inspect.signature(main).parameters else {})
    except UserError as error:
        sys.exit(error_line(error))
    except OSError as error:
        fault = disk_fault(error, Path(error.filename or "."))
        if fault:
            sys.exit(f"error: {fault}")
        raise
    except ValueError as error:
        line = validation_line(error)
        if line:
            sys.exit(f"error: {line}")
        raise


def use_utf_8() -> None:
    """Start this program again in Python's UTF-8 mode where the user's locale has another encoding, as GBK."""
    if not sys.flags.utf8_mode and codecs.lookup(locale.getencoding()).name != "utf-8":
        os.environ["PYTHONUTF8"] = "1"  # of what it starts, too
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def leave_out_what_libraries_say() -> None:
    """Print no lines of libraries that concern their own developers, or that are wrong here."""
    # peft 0.21 asks transformers for it by this name
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
    # a machine without GPUs is no mistake
    logging.getLogger("DeepSpeed").addFilter(lambda record: "Setting accelerator to CPU" not in record.getMessage())


def validation_line(error: ValueError) -> str | None:
    """The first error of pydantic's about a value that a script was given; None where it is another error.

    Without the value: it may be a URL with a password.
    """
    if type(error).__name__ != "ValidationError" or not hasattr(error, "errors"):
        return None
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    key = ".".join(str(part) for part in first["loc"]) or "the value"
    return f"{key}: {first['msg']}"


def given(function: Callable[..., object], doc: str | None = None) -> dict[str, object]:
    """What the command line gives for the parameters of a script's function: `--out` for `out: Path`.

    A list takes several values, a bool none; a dict, and a record that has `from_json`, take JSON. What has no default
    is required. `doc`: the help, by default the docstring of the function's module.
    """
    command = parser(doc or inspect.getmodule(function).__doc__)
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        kind, options = parameter.annotation, {"default": parameter.default}
        if parameter.default is parameter.empty:
            options = {"required": True}
        if isinstance(kind, types.UnionType):  # with None
            kind = typing.get_args(kind)[0]
        if typing.get_origin(kind) in (list, Sequence):
            kind, options["nargs"] = typing.get_args(kind)[0], "*"
        if kind is bool:
            options["action"] = "store_true"
        else:
            options["type"] = (
                json.loads if typing.get_origin(kind) or kind is dict else getattr(kind, "from_json", kind)
            )
        command.add_argument(f"--{name.replace('_', '-')}", **options)
    return vars(command.parse_args())


def parser(doc: str) -> argparse.ArgumentParser:
    """An argument parser whose help is the module's docstring; `@FILE` is replaced by the lines of that file."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, fromfile_prefix_chars="@"
    )
