"""Records which functions of scripts/ each rule's jobs execute: Python imports this module when it starts.

    mkdir trace && PYTHONPATH=tests/trace TRACE=$PWD/trace snakemake --profile local results/eval.json

Each process appends a line `rule TAB file TAB function` to TRACE/PID at the first call of a function, at once, so that
nothing is lost where a process is killed or replaced. A program that a job starts counts for the job's rule. What
numba has compiled is seen only with NUMBA_DISABLE_JIT=1, what runs in the sandbox not at all.
"""

import os
import sys
import threading
from pathlib import Path

# They start the program of a rule and give it GPUs: where it runs, which no fingerprint holds by decision.
LAUNCHERS = ("scripts.training.launch", "scripts.hosts.gpus")
EVERYTHING = set()  # stands for a file that is not the project's


def module_of(words: list[str]) -> str | None:
    """The module of scripts/ that a command line runs."""
    if "-m" in words[:-1] and (module := words[words.index("-m") + 1]).startswith("scripts."):
        return module
    return None


def tracer(rule: str, folder: Path):
    """A trace function that notes each function of the project once, in whichever clone of it."""
    seen: dict[str, set[str]] = {}

    def trace(frame, event, argument):
        code = frame.f_code
        file = code.co_filename
        if (known := seen.get(file)) is None:
            name = frame.f_globals.get("__name__", "")
            ours = "/scripts/" in file and (name.startswith("scripts.") or name == "__main__")
            known = seen[file] = set() if ours else EVERYTHING
        if known is not EVERYTHING and code.co_qualname not in known:
            known.add(code.co_qualname)
            if not code.co_name.startswith("<"):  # lambdas and comprehensions belong to what holds them
                try:
                    with (folder / str(os.getpid())).open("a") as out:
                        out.write(f"{rule}\tscripts/{file.rpartition('/scripts/')[2]}\t{code.co_qualname}\n")
                except OSError:  # a limit of the sandbox
                    pass

    return trace


def start(folder: str) -> None:
    """Trace this process, if it or the process that started it is a rule's job."""
    module = module_of(sys.orig_argv)
    if module and module not in LAUNCHERS:
        os.environ.setdefault("TRACE_RULE", module)
    if rule := os.environ.get("TRACE_RULE", module):
        trace = tracer(rule, Path(folder))
        threading.settrace(trace)
        sys.settrace(trace)


if "TRACE" in os.environ:
    start(os.environ["TRACE"])
