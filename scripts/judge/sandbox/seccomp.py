"""The system calls that are refused to generated code, as the BPF program that bubblewrap loads.

    program = bpf()  # what `bwrap --seccomp FD` reads

Namespaces, mounts and user ids already prevent most of them. The filter covers what they leave open: sockets if the
network namespace is shared (and with it abstract Unix sockets), nested namespaces, memory that no limit counts (memfd,
System V, POSIX queues), io_uring, which would bypass the filter, and parts of the kernel with a history of security
holes.
"""

import platform
import struct

from scripts.common.errors import UserError

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
