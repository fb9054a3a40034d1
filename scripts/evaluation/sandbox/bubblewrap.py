"""Runs programs that nobody has read: bubblewrap with namespaces, limits, a system call filter and a wall clock.

    sandbox = probe.sandbox()
    box = sandbox.run(["/bin/echo", "1"], Limits(seconds=10, memory=1 << 30))   # box.code, box.stdout, box.ended

A program sees /usr read-only, the folders and files it is given, an empty /tmp of limited size and a /proc of its own;
no network, environment, home or other process. Limits hold for each process (prlimit, set within) and for all together:
resident memory is summed up from outside, as a bomb of many small processes passes any limit on one.

As root, namespaces are made with root's rights and the program runs as a user id of its own, since limits on the number
of processes do not bind root, and not those of one user together. As a user, a user namespace serves instead.
"""

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import IO

from scripts.evaluation.sandbox.seccomp import bpf

MODES = ("full", "shared network namespace")

# Bytes of output kept of each stream, and where a program that writes more is ended.
KEPT, OUTPUT = 1 << 16, 64 << 20
LOOK = 0.05  # seconds between two looks at the memory in use
# User ids that no account has, another for each running program: limits on processes count by user.
UIDS = cycle(range(first := 1_000_000_000 + os.getpid() % 1_000_000 * 1000, first + 1000))
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Limits:
    """What a program may take.

    Attributes:
        seconds: wall clock, and CPU time of each process.
        memory: resident bytes of all its processes.
        address_space: whether `memory` bounds address spaces too; not for programs that reserve much.
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


class Box:
    """A running program.

    Attributes:
        ended: why it was killed: `timeout`, `memory` or `output`; else None.
        code: its exit code, or 128 + signal; None while it runs, where it was killed, and where it never started.
        stdout, stderr: what is kept of its output.
    """

    def __init__(self, process: subprocess.Popen, report: int, limits: Limits):
        self.process, self.limits, self.ended = process, limits, None
        self.stdout, self.stderr, self.written = bytearray(), bytearray(), 0
        self.report, self.reported = os.fdopen(report, "rb", buffering=0), bytearray()
        self.open = [stream for stream in (process.stdout, process.stderr, self.report) if stream]

    def read(self, stream: object) -> None:
        """Take in what can be read of one of the `open` streams, and close it at its end."""
        chunk = os.read(stream.fileno(), 1 << 16)
        if not chunk:
            self.open.remove(stream)
            stream.close()
        elif stream is self.report:
            self.reported += chunk
        else:
            kept, limit = (self.stdout, self.limits.output) if stream is self.process.stdout else (self.stderr, KEPT)
            kept += chunk[: max(0, limit - len(kept))]
            self.written += len(chunk)
            if self.written > OUTPUT:
                self.end("output")

    def end(self, why: str | None = None) -> None:
        """Kill it: with bubblewrap's monitor goes the first process of the namespace, and with that all others."""
        self.ended = self.ended or why
        self.process.kill()

    def close(self) -> None:
        while self.open:
            self.open.pop().close()
        self.process.wait()

    @property
    def code(self) -> int | None:
        found = re.search(rb'"exit-code": (\d+)', self.reported)
        return int(found[1]) if found else None


def fields(path: str) -> list[bytes]:
    """What a file of /proc lists."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123, pathlib takes twice as long and looks are many
        return file.read().split()


def resident(process: int) -> int:
    """Resident bytes of a process and all below it; of one that is gone, nothing."""
    folder = f"/proc/{process}"
    try:
        total = int(fields(f"{folder}/statm")[1]) * os.sysconf("SC_PAGE_SIZE")
        tasks = os.listdir(f"{folder}/task")  # noqa: PTH208
        children = [child for task in tasks for child in fields(f"{folder}/task/{task}/children")]
    except OSError:
        return 0
    return total + sum(resident(int(child)) for child in children)


def system() -> list[str]:
    """Arguments that show /usr and what leads into it, and make the folders in which more is shown."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for folder in ("/etc", "/opt", "/run"):
        arguments += ["--perms", "0755", "--dir", folder]
    for path in (Path("/bin"), Path("/sbin"), Path("/lib"), Path("/lib64")):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return [*arguments, "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]


def content(data: bytes) -> IO[bytes]:
    """A file in memory from which `data` can be read."""
    file = os.fdopen(os.memfd_create("content"), "w+b", buffering=0)
    file.write(data)
    file.seek(0)
    return file


class Sandbox:
    """Starts programs in one of the `MODES`; `scripts/evaluation/sandbox/probe.py` finds the one that isolates here."""

    def __init__(self, mode: str):
        self.mode, self.root, self.filter, self.system = mode, os.geteuid() == 0, bpf(), system()
        # this interpreter without its packages; one that lies in somebody's home is shown elsewhere
        prefix, name = Path(sys.base_prefix), f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
        options = ["-s", "-P", "-S"]
        if prefix.is_relative_to("/usr"):
            self.folders, self.python = {}, [str(prefix / name), *options]
        else:
            self.folders = {"/opt/python": str(prefix)}
            self.python = ["/usr/bin/env", "LD_LIBRARY_PATH=/opt/python/lib", f"/opt/python/{name}", *options]

    def namespaces(self) -> list[str]:
        names = ["pid", "ipc", "uts", *(["net"] if self.mode == "full" else [])]
        arguments = [*(f"--unshare-{name}" for name in names), "--unshare-cgroup-try", "--cap-drop", "ALL"]
        if self.root:
            return [*arguments, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        return [*arguments, "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"]

    def inner(self, limits: Limits) -> list[str]:
        """What sets the limits, within the namespaces, and becomes the program."""
        cpu, uid = max(1, round(limits.seconds + 0.5)), str(next(UIDS))
        bounds = {"cpu": f"{cpu}:{cpu + 1}", "nproc": limits.processes, "nofile": 256, "fsize": limits.scratch}
        bounds |= {"core": 0, "memlock": 1 << 16} | ({"as": limits.memory} if limits.address_space else {})
        user = ["/usr/bin/setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--"] if self.root else []
        return [*user, "/usr/bin/prlimit", *(f"--{name}={bound}" for name, bound in bounds.items()), "--"]

    def start(
        self,
        argv: list[str],
        limits: Limits,
        *,
        folders: dict[str, str] | None = None,
        files: dict[str, bytes] | None = None,
        environment: dict[str, str] | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        descriptors: tuple[int, ...] = (),
    ) -> Box:
        """Start a program.

        Args:
            folders: folders of this machine by the path at which the program sees them, read-only.
            files: contents by path; a program can execute them, and neither read nor change those in /run.
            descriptors: file descriptors it inherits, of the same numbers.
        """
        files, (reading, writing) = files or {}, os.pipe()
        with ExitStack() as stack:
            memory = [stack.enter_context(content(data)) for data in (self.filter, *files.values())]
            seccomp, *given = [file.fileno() for file in memory]
            command = ["bwrap", *self.namespaces(), "--die-with-parent", "--new-session", "--clearenv", *self.system]
            for name, value in {**ENVIRONMENT, **(environment or {})}.items():
                command += ["--setenv", name, value]
            command += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
            command += ["--size", str(limits.scratch), "--perms", "1777", "--tmpfs", "/tmp"]
            for path, folder in {**self.folders, **(folders or {})}.items():
                command += ["--ro-bind", folder, path]
            for path, descriptor in zip(files, given, strict=True):
                permissions = "0111" if path.startswith("/run/") else "0444"
                command += ["--perms", permissions, "--ro-bind-data", str(descriptor), path]
            command += ["--chdir", "/tmp", "--remount-ro", "/", "--seccomp", str(seccomp)]
            command += ["--json-status-fd", str(writing), "--", *self.inner(limits), *argv]
            try:
                process = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=subprocess.PIPE,
                    pass_fds=[seccomp, *given, writing, *descriptors],
                )
            finally:
                os.close(writing)
        return Box(process, reading, limits)

    def run(self, argv: list[str], limits: Limits, stdin: bytes = b"", **options) -> Box:
        """Start a program, write `stdin` (more than a pipe holds only where it is read), wait for its end."""
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as pipe:
            try:
                box = self.start(argv, limits, stdin=reading, **options)
            finally:
                os.close(reading)
            with suppress(BrokenPipeError):
                pipe.write(stdin)
                pipe.flush()
        watch([box], lambda: not box.open)
        return box


def watch(boxes: list[Box], finished: Callable[[], bool]) -> None:
    """Read what programs write until `finished` or one takes more than its limits; then end and close them all."""
    start, look = time.monotonic(), time.monotonic() + LOOK
    with selectors.DefaultSelector() as selector:
        for box in boxes:
            for stream in box.open:
                selector.register(stream, selectors.EVENT_READ, box)
        while not finished() and not any(box.ended for box in boxes):
            for key, _ in selector.select(max(0.0, look - time.monotonic())):
                key.data.read(key.fileobj)
                if key.fileobj not in key.data.open:
                    selector.unregister(key.fileobj)
            if (now := time.monotonic()) >= look:
                look = now + LOOK
                for box in boxes:
                    if now - start > box.limits.seconds:
                        box.end("timeout")
                    elif resident(box.process.pid) > box.limits.memory:
                        box.end("memory")
    for box in boxes:
        box.end()
        box.close()
