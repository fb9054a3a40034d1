"""One Snakemake at a time works in a folder: who holds it, and whether that process is still alive.

Snakemake's own lock is a file that says neither and stays after `kill -9`. So the main process holds an flock on
`.snakemake/owner.json` for as long as it lives, with its process id, host and start in it. The kernel drops the flock
with the process. What Snakemake's lock means then:

- the flock is held: that process is alive, and is named;
- it is free, and was last held on this host since its last start: that process is dead, its lock is removed;
- it is free, and was last held on another host: nobody can tell from here, as not every shared file system passes an
  flock on to other hosts. A line says what to do.
"""

import datetime
import fcntl
import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path

from scripts.common.disk import disk_errors
from scripts.common.errors import UserError

OWNER = Path(".snakemake/owner.json")
LOCKS = Path(".snakemake/locks")
RUN = "STAGECRAFT_RUN"  # set in the environment of all jobs of a run: its owner's process id and start
SECONDS = 2  # between two looks at the jobs of a run that is dead
ROOM = 1 << 20  # bytes that must be free for Snakemake's log and records: of a job some kB
UNLOCK = "snakemake --unlock"


def this_process() -> dict[str, str | int]:
    """What the owner's file says of this process; `boot` tells two hosts of one name apart, and a restart."""
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "since": datetime.datetime.now().isoformat(sep=" ", timespec="seconds"),
    }


def described(owner: dict) -> str:
    return f"process {owner['pid']} on {owner['host']}, started {owner['since']}"


def read_owner(descriptor: int) -> dict:
    """The last owner; an empty one where there was none, or where it was killed while it wrote this."""
    try:
        owner = json.loads(os.pread(descriptor, 4096, 0))
    except ValueError:
        return {}
    if isinstance(owner, dict) and {"pid", "host", "boot", "since"} <= owner.keys():
        return owner
    return {}


def hold_folder(locks: bool = True) -> None:
    """Hold the working folder until this process ends, and remove what a killed Snakemake left in it.

    Args:
        locks: whether Snakemake locks (not with `--nolock`): else another one that is alive is no obstacle.

    Raises:
        UserError: another Snakemake works here, or may do so; or the folder's `.snakemake` cannot be written.
    """
    descriptor = open_owner()
    earlier_owner = read_owner(descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not locks:
            return
        holder = "a process that is just starting"
        if earlier_owner:
            holder = described(earlier_owner)
        raise UserError(f"another Snakemake works in this folder: {holder}; wait for it, or end it there") from None
    except OSError:
        return  # a file system without flock: Snakemake's own lock is all there is
    owner = this_process()
    if locks and any(LOCKS.glob("*.lock")):
        if not earlier_owner or earlier_owner["boot"] != owner["boot"]:
            holder = "a Snakemake that did not say which"
            if earlier_owner:
                holder = described(earlier_owner)
            raise UserError(f"this folder is locked by {holder}; if that is no longer running: {UNLOCK}")
        for lock in LOCKS.glob("*.lock"):
            lock.unlink(missing_ok=True)
        print(f"unlocked: the lock was left by {described(earlier_owner)}, which was killed", file=sys.stderr)
    if earlier_owner and earlier_owner["boot"] == owner["boot"]:
        wait_for_jobs(run_of(earlier_owner))
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(owner).encode(), 0)
    os.environ[RUN] = run_of(owner)


def open_owner() -> int:
    """A descriptor of the owner's file."""
    with disk_errors(OWNER.parent):
        OWNER.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=OWNER.parent, buffering=0) as probe:
            written = probe.write(bytes(ROOM))
            if written < ROOM:
                probe.write(bytes(ROOM - written))  # fails with the reason
        return os.open(OWNER, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def run_of(owner: dict) -> str:
    return f"{owner['pid']} {owner['since']}"


def jobs_of(run: str) -> dict[int, str]:
    """Process id → module, of the scripts on this host that a run started and that are still running."""
    import psutil  # only after a kill

    running = {}
    for process in psutil.process_iter(["environ", "cmdline"]):
        environment = process.info["environ"] or {}  # None of another user's process
        modules = [word for word in process.info["cmdline"] or [] if word.startswith("scripts.")]
        # a job in Slurm's queue is waited for there
        if environment.get(RUN) == run and "SLURM_JOB_ID" not in environment and modules:
            running[process.pid] = modules[-1]
    return running


def wait_for_jobs(run: str) -> None:
    """Wait for the scripts that a killed Snakemake left running: another one of each would write the same files."""
    shown = {}
    while jobs := jobs_of(run):
        if jobs != shown:
            named = ", ".join(f"{pid} ({module})" for pid, module in jobs.items())
            ids = " ".join(map(str, jobs))
            print(f"waiting for jobs of an earlier run: {named}; to end them: kill {ids}", file=sys.stderr)
            shown = jobs
        time.sleep(SECONDS)
