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
import platform
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import IO

from scripts.common.errors import UserError
from scripts.judge.sandbox.memory_groups import MemoryGroups
from scripts.judge.sandbox.program import Limits, Program, wait

EPERM, EACCES, ENOSYS = 1, 13, 38

# name: (number on x86_64, number on aarch64, errno). ENOSYS makes callers fall back: glibc from clone3, whose flags a
# filter cannot read, to clone.
REFUSED = {
    "socket": (41, 198, EACCES),
    "io_uring_setup": (425, 425, ENOSYS),
    "io_uring_enter": (426, 426, ENOSYS),
    "io_uring_register": (427, 427, ENOSYS),
    "memfd_create": (319, 279, ENOSYS),
    "memfd_secret": (447, 447, ENOSYS),
    "shmget": (29, 194, ENOSYS),
    "semget": (64, 190, ENOSYS),
    "msgget": (68, 186, ENOSYS),
    "mq_open": (240, 180, ENOSYS),
    "clone3": (435, 435, ENOSYS),
    "unshare": (272, 97, EPERM),
    "setns": (308, 268, EPERM),
    "mount": (165, 40, EPERM),
    "umount2": (166, 39, EPERM),
    "pivot_root": (155, 41, EPERM),
    "chroot": (161, 51, EPERM),
    "open_tree": (428, 428, EPERM),
    "move_mount": (429, 429, EPERM),
    "fsopen": (430, 430, EPERM),
    "fsconfig": (431, 431, EPERM),
    "fsmount": (432, 432, EPERM),
    "fspick": (433, 433, EPERM),
    "mount_setattr": (442, 442, EPERM),
    "ptrace": (101, 117, EPERM),
    "process_vm_readv": (310, 270, EPERM),
    "process_vm_writev": (311, 271, EPERM),
    "pidfd_getfd": (438, 438, EPERM),
    "kcmp": (312, 272, EPERM),
    "perf_event_open": (298, 241, EPERM),
    "bpf": (321, 280, EPERM),
    "userfaultfd": (323, 282, EPERM),
    "fanotify_init": (300, 262, EPERM),
    "add_key": (248, 217, EPERM),
    "request_key": (249, 218, EPERM),
    "keyctl": (250, 219, EPERM),
    "personality": (135, 92, EPERM),
    "vmsplice": (278, 75, EPERM),
    "syslog": (103, 116, EPERM),
    "acct": (163, 89, EPERM),
    "quotactl": (179, 60, EPERM),
    "reboot": (169, 142, EPERM),
    "kexec_load": (246, 104, EPERM),
    "kexec_file_load": (320, 294, EPERM),
    "init_module": (175, 105, EPERM),
    "finit_module": (313, 273, EPERM),
    "delete_module": (176, 106, EPERM),
    "settimeofday": (164, 170, EPERM),
    "clock_settime": (227, 112, EPERM),
}
CLONE = (56, 220)
# CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NEW_NAMESPACES = 0x7E020080

# AUDIT_ARCH of seccomp_data.arch
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# On x86_64 the same kernel also accepts the system call numbers of the x32 ABI, which start here.
X32 = 0x40000000

LOAD, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data; both machines are little-endian
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def bpf(machine: str | None = None) -> bytes:
    """An array of struct sock_filter.

    Args:
        machine: as named by `platform.machine()`; by default this one.

    Raises:
        UserError: no table for this machine.
    """
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise UserError(f"generated code cannot be isolated on {machine}; run it on {' or '.join(ARCHITECTURES)}")
    column, audit = ARCHITECTURES[machine]
    program = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
        (JUMP_GREATER_EQUAL, 0, 1, X32),
        (RETURN, 0, 0, ERRNO | ENOSYS),
    ]
    for *numbers, errno in REFUSED.values():
        program += [(JUMP_EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, ERRNO | errno)]
    program += [
        (JUMP_EQUAL, 0, 3, CLONE[column]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_ANY_BIT, 0, 1, NEW_NAMESPACES),
        (RETURN, 0, 0, ERRNO | EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


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
