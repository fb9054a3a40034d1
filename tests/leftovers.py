"""End what tests leave running, however pytest ends: at its end, by Ctrl-C, SIGTERM or `kill -9`.

    python -m tests.leftovers PYTEST_PID MARK      # the watcher; conftest.py starts it

Daemons and torchrun's ranks leave their parent and its session, so no group of processes holds them all. But every
process keeps the environment that it started with: pytest puts a mark into its own, and the watcher, a process in a
session of its own, waits for pytest's end and kills each process that has the mark, with its children.
"""

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "STAGECRAFT_TESTS"  # the variable; its value names one run of pytest
ROOT = Path(__file__).parents[1]
LONGEST = 30  # seconds in which processes may still start others before the watcher gives up


def watch() -> None:
    """Mark this process, and start the watcher unless a pytest around this one has started its own."""
    if MARK in os.environ:  # also in the workers of pytest-xdist
        return
    value = f"{os.getpid()}-{time.time_ns()}"
    words = [sys.executable, "-m", "tests.leftovers", str(os.getpid()), value]
    nothing = subprocess.DEVNULL
    subprocess.Popen(words, cwd=ROOT, start_new_session=True, stdin=nothing, stdout=nothing, stderr=nothing)
    os.environ[MARK] = value


def environment(process: psutil.Process) -> list[str]:
    """`NAME=value` of what a process was started with. psutil's own ends at the first gap, which a title leaves."""
    return Path(f"/proc/{process.pid}/environ").read_text(errors="replace").split("\0")


def marked(value: str, clusters: set[str]) -> set[psutil.Process]:
    """The processes that were started with this mark, and those that they have started.

    A job's slurmstepd writes its title over its environment, mark included, but for the last variables: it is known by
    the configuration of its cluster. `clusters`: these variables; those of the daemons that are found are added.
    """
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it ended, or belongs to another user
            ours = not {f"{MARK}={value}", *clusters}.isdisjoint(environment(process))
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found |= {process, *process.children(recursive=True)}
                words = process.cmdline()
                if process.name() == "slurmd" and "-f" in words:
                    clusters.add(f"SLURM_CONF={words[words.index('-f') + 1]}")
    return found - {psutil.Process()}


def end_all(value: str) -> None:
    """Kill what has the mark until nothing is left, as what is killed last may have started more."""
    stop, clusters = time.monotonic() + LONGEST, set()
    while time.monotonic() < stop:
        processes = marked(value, clusters)
        if not processes:
            return
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=1)


def main() -> None:
    pytest, value = int(sys.argv[1]), sys.argv[2]
    with suppress(ProcessLookupError):  # it has ended already
        end = os.pidfd_open(pytest)
        select.select([end], [], [])
    end_all(value)


if __name__ == "__main__":
    main()
