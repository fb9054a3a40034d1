"""The lease folder: lock files that all users of a host share, and one lock under which a job looks for cards.

    with opened_folder(path) as folder, one_at_a_time(folder):
        descriptor = opened("GPU-….lock", folder)
        if holder_of(descriptor) is None:      # this process has the lock now, until it ends
            sign(descriptor)

Another user's links and files are not trusted: what is no plain file is refused.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.errors import UserError

VARIABLE = "STAGECRAFT_GPU_LEASES"  # names another folder
GATE = "gate.lock"  # held by the one job that looks for cards
GATE_LIMIT = 60.0  # seconds in which the gate must be free; a job needs it for a fraction of one
GATE_POLL = 0.05  # seconds between two looks


@contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """Yield a descriptor of the lease folder, made for all users where it is not there.

    Whoever owns the folder can put other files in the place of the leases. So it must be the user's own, root's, or
    one that is shared as /tmp is: anybody may add files, nobody may remove another's.

    Raises:
        UserError: it is a link or no folder, or another user could replace the leases in it.
    """
    try:
        path.mkdir(parents=True)
        path.chmod(0o1777)  # all users', past the umask
    except FileExistsError:
        pass
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except NotADirectoryError:  # a link, too
        raise UserError(f"{path}: not a folder, or a link; remove it, or name a folder in {VARIABLE}") from None
    try:
        facts = os.fstat(folder)
        if facts.st_uid not in (0, os.getuid()) and facts.st_mode & 0o1777 != 0o1777:
            raise UserError(f"{path}: owned by user {facts.st_uid} and not shared (mode 1777); see {VARIABLE}")
        yield folder
    finally:
        os.close(folder)


def opened(name: str, folder: int) -> int:
    """A descriptor of a lock file in `folder`. Another user's must be opened without O_CREAT (fs.protected_regular).

    Raises:
        UserError: it is a link, no regular file, or has a second name, under which it may be anybody's.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(name, flags, dir_fd=folder)
        except FileNotFoundError:
            descriptor = os.open(name, flags | os.O_CREAT | os.O_EXCL, dir_fd=folder)
            os.fchmod(descriptor, 0o666)
    except FileExistsError:  # made by another job in this moment
        return opened(name, folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise UserError(f"{name}: not a plain file in the lease folder; remove it, or see {VARIABLE}") from None
        raise
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
        os.close(descriptor)
        raise UserError(f"{name}: not a plain file in the lease folder; remove it, or see {VARIABLE}")
    return descriptor


def holder_of(descriptor: int) -> str | None:
    """Who holds a lock; None where it is now this process."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return os.pread(descriptor, 4096, 0).decode(errors="replace") or "a process that is just starting"


def sign(descriptor: int) -> None:
    """Write who holds a lock into its file."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} in {Path.cwd()}".encode(), 0)


@contextmanager
def one_at_a_time(folder: int) -> Iterator[None]:
    """Let one job of this host look for cards at a time, so that two never hold half of what both need.

    Raises:
        UserError: another process has kept the others from looking for GATE_LIMIT seconds.
    """
    gate = opened(GATE, folder)
    try:
        end = time.monotonic() + GATE_LIMIT
        while holder := holder_of(gate):
            if time.monotonic() > end:
                raise UserError(
                    f"gpus: {holder} has held the lock on the leases for {GATE_LIMIT:.0f} s, instead of a moment;"
                    " if it is suspended, resume it (kill -CONT) or end it"
                )
            time.sleep(GATE_POLL)
        sign(gate)
        yield
    finally:
        os.close(gate)
