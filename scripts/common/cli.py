"""How every script runs: log lines with the time, one-line errors for users.

A script ends with `if __name__ == "__main__": run(command(pack))`: the parameters of its function are its options
(scripts/common/options.py).
"""

import codecs
import gc
import locale
import logging
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from scripts.common.disk import disk_fault
from scripts.common.errors import UserError, error_line


def run(main: Callable[[], object]) -> None:
    """Set up logging and call `main`; a UserError or a full disk ends as one line, a bug keeps its traceback."""
    use_utf_8()
    gc.freeze()  # what was imported is not searched, neither now nor when the process ends
    gc.enable()  # scripts/__init__.py switched it off
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    leave_out_what_libraries_say()
    try:
        main()
        sys.stdout.flush()
    except UserError as error:
        sys.exit(error_line(error))
    except BrokenPipeError:
        # whoever reads, as `head`, has seen enough; what is still buffered goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # as of a program that SIGPIPE ends
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
    # transformers tells DeepSpeed alone how many passes a step has, as DeepSpeed divides the loss
    logging.getLogger("accelerate.accelerator").addFilter(
        lambda record: "Gradient accumulation steps mismatch" not in record.getMessage()
    )
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
