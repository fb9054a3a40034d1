"""How a program in the sandbox ended, as an outcome and as text."""

import re
from collections.abc import Iterable

from scripts.judge.outcomes import Verdict
from scripts.judge.sandbox.program import FILES, Program

# Characters kept of a message.
DETAIL = 1000
SIGXCPU = 24


def exceeded(programs: Iterable[Program]) -> Verdict | None:
    """The verdict if one of the programs exceeded its limits."""
    for program in programs:
        if program.killed_for == "output":
            return Verdict("exception", "more output than 64 MB")
        if program.killed_for == "files":
            return Verdict("exception", f"more than {FILES} files")
        if program.killed_for:
            detail = f"more than {program.limits.seconds} s" if program.killed_for == "timeout" else ""
            return Verdict(program.killed_for, detail)
        if program.code == 128 + SIGXCPU:
            return Verdict("timeout", f"more than {program.limits.seconds} s of CPU time")
    return None


def message(program: Program) -> str:
    """The end of a program's standard error, without addresses and names that differ from run to run."""
    text = re.sub(r"0x[0-9a-f]{6,}|(?<=/tmp/cc)\w+", "", program.stderr.decode(errors="replace"))
    return text[-DETAIL:]
