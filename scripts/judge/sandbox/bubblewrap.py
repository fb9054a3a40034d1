"""Run untrusted programs: bubblewrap with namespaces, limits, a system call filter and a wall clock.

    sandbox = probe.sandbox()
    program = sandbox.run(["/bin/echo", "1"], Limits(seconds=10, memory=1 << 30))
    program.code, program.stdout, program.killed_for

A program sees /usr read-only, the folders and files it is given, an empty /tmp of limited size and a /proc of its own;
no network, environment, home folder or other process. Its limits: scripts/judge/sandbox/program.py.

As root, namespaces are made with root's rights, and each program runs under a user id of its own: limits on the number
of processes do not apply to root, and would count all programs of one user together. As a user, a user namespace serves
instead.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import IO

from scripts.judge.sandbox.memory_groups import MemoryGroups
from scripts.judge.sandbox.program import Limits, Program, wait
from scripts.judge.sandbox.seccomp import bpf

MODES = ("full", "shared network namespace")

FEW_FILES = 64  # open files of a process
OVERHEAD = 64 << 20  # bytes of bubblewrap itself, and of what the kernel keeps for its namespaces

# User ids that no account has, a different one for each running program: limits on processes count by user.
FIRST_UID = 1_000_000_000 + os.getpid() % 1_000_000 * 1000
UIDS = cycle(range(FIRST_UID, FIRST_UID + 1000))
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0"}


def system_folders() -> list[str]:
    """Arguments that show /usr and the links into it, and make the folders in which more is shown."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for folder in ("/etc", "/opt", "/run"):
        arguments += ["--perms", "0755", "--dir", folder]
    for path in (Path("/bin"), Path("/sbin"), Path("/lib"), Path("/lib64")):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    return [*arguments, "--ro-bind-try", "/etc/alternatives", "/etc/alternatives"]


def memory_file(data: bytes) -> IO[bytes]:
    """A file in memory that holds `data`."""
    file = os.fdopen(os.memfd_create("content"), "w+b", buffering=0)
    file.write(data)
    file.seek(0)
    return file


@contextmanager
def replies_in(data: bytes) -> Iterator[tuple[int, int]]:
    """What a tests' process reads and writes where no program is: descriptors of these replies, and of nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        with memory_file(data) as replies:
            yield replies.fileno(), nowhere
    finally:
        os.close(nowhere)


class Sandbox:
    """Starts programs in one of the `MODES`; `scripts/judge/sandbox/probe.py` finds the one that isolates here."""

    def __init__(self, mode: str):
        self.mode, self.root, self.filter, self.system = mode, os.geteuid() == 0, bpf(), system_folders()
        self.groups = MemoryGroups.of_this_machine()
        # this interpreter without its packages; if it lies in a home folder, it is shown below /opt
        self.prefix, name = Path(sys.base_prefix), f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
        options = ["-s", "-P", "-S"]
        if self.prefix.is_relative_to("/usr"):
            self.folders, self.python = {}, [str(self.prefix / name), *options]
        else:
            self.folders = {"/opt/python": str(self.prefix)}
            self.python = ["/usr/bin/env", "LD_LIBRARY_PATH=/opt/python/lib", f"/opt/python/{name}", *options]

    def namespaces(self) -> list[str]:
        names = ["pid", "ipc", "uts", *(["net"] if self.mode == "full" else [])]
        arguments = [*(f"--unshare-{name}" for name in names), "--unshare-cgroup-try", "--cap-drop", "ALL"]
        if self.root:
            return [*arguments, "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        return [*arguments, "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534"]

    def limited(self, limits: Limits) -> list[str]:
        """The command that sets user and limits, inside the namespaces, before it becomes the program."""
        cpu, uid = max(1, round(limits.seconds + 0.5)), str(next(UIDS))
        # each may hold a socket's buffers, which no sum of the processes' memory sees; virtual machines open many
        files = FEW_FILES if limits.address_space else 256
        bounds = {"cpu": f"{cpu}:{cpu + 1}", "nproc": limits.processes, "nofile": files, "fsize": limits.scratch}
        bounds |= {"core": 0, "memlock": 1 << 16} | ({"as": limits.memory} if limits.address_space else {})
        user = []
        if self.root:
            user = ["/usr/bin/setpriv", "--reuid", uid, "--regid", uid, "--clear-groups", "--"]
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
    ) -> Program:
        """Start a program.

        Args:
            folders: folders of this machine by the path at which the program sees them, read-only.
            files: contents by path; the program can execute them, and can neither read nor change those in /run.
            descriptors: file descriptors that it inherits, with the same numbers.
        """
        files, (reading, writing) = files or {}, os.pipe()
        with ExitStack() as stack:
            memory = [stack.enter_context(memory_file(data)) for data in (self.filter, *files.values())]
            seccomp, *contents = [file.fileno() for file in memory]
            command = ["bwrap", *self.namespaces(), "--die-with-parent", "--new-session", "--clearenv"]
            command += self.system
            for name, value in {**ENVIRONMENT, **(environment or {})}.items():
                command += ["--setenv", name, value]
            command += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
            command += ["--size", str(limits.scratch), "--perms", "1777", "--tmpfs", "/tmp"]
            for path, folder in {**self.folders, **(folders or {})}.items():
                command += ["--ro-bind", folder, path]
            for path, descriptor in zip(files, contents, strict=True):
                permissions = "0444"
                if path.startswith("/run/"):
                    permissions = "0111"
                command += ["--perms", permissions, "--ro-bind-data", str(descriptor), path]
            command += ["--chdir", "/tmp", "--remount-ro", "/", "--seccomp", str(seccomp)]
            command += ["--json-status-fd", str(writing), "--", *self.limited(limits), *argv]
            group = self.groups and self.groups.create(limits.memory + limits.scratch + OVERHEAD)
            try:
                process = subprocess.Popen(
                    group.command(command) if group else command,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=subprocess.PIPE,
                    pass_fds=[seccomp, *contents, writing, *descriptors],
                )
            finally:
                os.close(writing)
        return Program(process, reading, limits, group)

    def run(self, argv: list[str], limits: Limits, stdin: bytes = b"", **options) -> Program:
        """Start a program, write `stdin` (more than a pipe holds only if the program reads it), wait for its end.
        `options`: see `start`."""
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as pipe:
            try:
                program = self.start(argv, limits, stdin=reading, **options)
            finally:
                os.close(reading)
            with suppress(BrokenPipeError):
                pipe.write(stdin)
                pipe.flush()
        wait([program], lambda: not program.open)
        return program
