"""A program that runs in the sandbox: read its output, and end it when it exceeds its limits.

    wait([program], lambda: not program.open)   # until all its output is read, or it was killed
    program.code, program.stdout, program.killed_for

Limits hold for each process (prlimit, set inside the sandbox) and for all of them together: resident memory is summed
from outside, because a bomb of many small processes passes any limit on one. Where cgroups can be made
(memory_groups.py), one also counts what the kernel holds for them; where not, few open files keep that small.
"""

import os
import re
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from scripts.judge.problem import Verdict
from scripts.judge.sandbox.memory_groups import MemoryGroup

# Bytes of output kept of each stream, and after how many in all a program is ended.
KEPT, OUTPUT = 1 << 16, 64 << 20
FILES = 20_000  # in /tmp, also empty ones and folders, each of which takes a kilobyte of the kernel's memory
CHECK_EVERY = 0.05  # seconds between two checks of time and memory


@dataclass(frozen=True)
class Limits:
    """What a program may use.

    Attributes:
        seconds: wall clock, and CPU time of each process.
        memory: resident bytes of all its processes.
        address_space: whether `memory` also bounds address spaces; not for programs that reserve much.
        processes: processes and threads.
        scratch: bytes of /tmp.
        output: bytes of standard output that are kept.
    """

    seconds: float
    memory: int
    address_space: bool = True
    processes: int = 64
    scratch: int = 64 << 20
    output: int = KEPT


class Program:
    """A running program.

    Attributes:
        killed_for: the limit it exceeded (`timeout`, `memory`, `output` or `files`); None if it was not killed.
        code: its exit code, or 128 + signal; None while it runs, if it was killed, and if it never started.
        stdout, stderr: its output, as far as it is kept.
        open: its streams that are not read to their end.
    """

    def __init__(self, process: subprocess.Popen, status: int, limits: Limits, group: MemoryGroup | None = None):
        self.process, self.limits, self.killed_for, self.group = process, limits, None, group
        self.stdout, self.stderr, self.written = bytearray(), bytearray(), 0
        self.status, self.status_text = os.fdopen(status, "rb", buffering=0), bytearray()  # bubblewrap's own reports
        self.open = [stream for stream in (process.stdout, process.stderr, self.status) if stream]

    def read(self, stream: object) -> None:
        """Read what is available of one of the `open` streams, and close it at its end."""
        chunk = os.read(stream.fileno(), 1 << 16)
        if not chunk:
            self.open.remove(stream)
            stream.close()
        elif stream is self.status:
            self.status_text += chunk
        else:
            if stream is self.process.stdout:
                kept, limit = self.stdout, self.limits.output
            else:
                kept, limit = self.stderr, KEPT
            kept += chunk[: max(0, limit - len(kept))]
            self.written += len(chunk)
            if self.written > OUTPUT:
                self.kill("output")

    def kill(self, limit: str | None = None) -> None:
        """Kill it: bubblewrap's monitor takes the namespace's first process with it, and that all others. `limit`: the
        one that was exceeded."""
        self.killed_for = self.killed_for or limit
        self.process.kill()

    def close(self) -> None:
        while self.open:
            self.open.pop().close()
        self.process.wait()
        if self.group and self.group.remove():
            self.killed_for = self.killed_for or "memory"

    @property
    def code(self) -> int | None:
        match = re.search(rb'"exit-code": (\d+)', self.status_text)
        return int(match[1]) if match else None


def files_of(program: Program) -> int:
    """The number of files and folders in its /tmp; 0 of one that has not begun or has ended."""
    first = re.search(rb'"child-pid": (\d+)', program.status_text)
    if not first:
        return 0
    try:
        folder = os.open(f"/proc/{int(first[1])}/root/tmp", os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return 0
    try:
        if os.fstat(folder).st_dev == Path("/tmp").stat().st_dev:  # this machine's: its own is not mounted yet
            return 0
        counted = os.fstatvfs(folder)
        return counted.f_files - counted.f_ffree
    finally:
        os.close(folder)


def fields(path: str) -> list[bytes]:
    """The words of a file of /proc."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123, pathlib takes twice as long and this is called often
        return file.read().split()


def resident(process: int) -> int:
    """Resident bytes of a process and all below it; 0 for one that has ended."""
    folder = f"/proc/{process}"
    try:
        total = int(fields(f"{folder}/statm")[1]) * os.sysconf("SC_PAGE_SIZE")
        tasks = os.listdir(f"{folder}/task")  # noqa: PTH208
        children = []
        for task in tasks:
            children += fields(f"{folder}/task/{task}/children")
    except OSError:
        return 0
    return total + sum(resident(int(child)) for child in children)


class Pipes(NamedTuple):
    """Two pipes by which a judge calls a candidate: each end is a descriptor for one of the two programs."""

    call_reader: int  # the candidate's
    call_writer: int
    reply_reader: int
    reply_writer: int  # the candidate's


@contextmanager
def two_pipes() -> Iterator[Pipes]:
    """Pipes for programs that are started in the block; this process's own ends are closed behind it."""
    pipes = Pipes(*os.pipe(), *os.pipe())
    try:
        yield pipes
    finally:
        for descriptor in pipes:
            os.close(descriptor)


def wait(programs: list[Program], finished: Callable[[], bool]) -> None:
    """Read what programs write until `finished` or one exceeds its limits; then kill and close them all."""
    start, check = time.monotonic(), time.monotonic() + CHECK_EVERY
    with selectors.DefaultSelector() as selector:
        for program in programs:
            for stream in program.open:
                selector.register(stream, selectors.EVENT_READ, program)
        while not finished() and not any(program.killed_for for program in programs):
            for key, _ in selector.select(max(0.0, check - time.monotonic())):
                key.data.read(key.fileobj)
                if key.fileobj not in key.data.open:
                    selector.unregister(key.fileobj)
            now = time.monotonic()
            if now >= check:
                check = now + CHECK_EVERY
                for program in programs:
                    if now - start > program.limits.seconds:
                        program.kill("timeout")
                    elif resident(program.process.pid) > program.limits.memory:
                        program.kill("memory")
                    elif files_of(program) > FILES:
                        program.kill("files")
    for program in programs:
        program.kill()
        program.close()


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
            detail = ""
            if program.killed_for == "timeout":
                detail = f"more than {program.limits.seconds} s"
            return Verdict(program.killed_for, detail)
        if program.code == 128 + SIGXCPU:
            return Verdict("timeout", f"more than {program.limits.seconds} s of CPU time")
    return None


def message(program: Program) -> str:
    """The end of a program's standard error, without addresses and names that differ from run to run."""
    text = re.sub(r"0x[0-9a-f]{6,}|(?<=/tmp/cc)\w+", "", program.stderr.decode(errors="replace"))
    return text[-DETAIL:]
