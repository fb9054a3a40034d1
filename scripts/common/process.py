"""Which process one is, on any host and after any restart of it; and processes that end with their parent.

owner = this_process()                # {"host": "n1", "boot": "9f...", "pid": 812, "started": 48211}
runs_here(owner)                      # True; None where another host would have to say
end_with_parent(signal.SIGKILL)
"""

import ctypes
import os
import signal
import socket
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")  # another one after each start of a host
PR_SET_PDEATHSIG = 1  # linux/prctl.h
LIBC = ctypes.CDLL(None, use_errno=True)  # loaded here, as nothing may be between fork and exec


def start_of(pid: int) -> int | None:
    """When a process of this host started, in clock ticks since the host did; None where there is none, or it ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = text.rpartition(")")[2].split()  # its name, in brackets before them, may hold anything
    return None if state in "ZX" else int(fields[18])


def this_process() -> dict[str, str | int]:
    """What tells this process from all others; `boot` tells two hosts of one name apart, and a restart."""
    pid = os.getpid()
    return {
        "host": socket.gethostname(),
        "boot": BOOT.read_text().strip(),
        "pid": pid,
        "started": start_of(pid),
    }


def runs_here(process: dict) -> bool | None:
    """Whether a process that `this_process` described still runs; None where it is another host's."""
    if process["host"] != socket.gethostname():
        return None
    return process["boot"] == BOOT.read_text().strip() and start_of(process["pid"]) == process["started"]


def end_with_parent(number: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent ends, even by `kill -9`. Linux only. The parent may be
    gone before this: whoever must know compares os.getppid() with it."""
    LIBC.prctl(PR_SET_PDEATHSIG, number)
