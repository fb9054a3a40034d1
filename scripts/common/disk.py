"""Report a full, read-only or failing disk as one line with the path and the free space; format sizes (`12.3 GiB`).

with disk_errors(out):
    ...  # whatever writes below `out`
"""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.common.errors import UserError

# ENOSPC and EDQUOT come without the path that was written, or with that of the source of a copy
FULL = {errno.ENOSPC, errno.EDQUOT}
FAULTS = {*FULL, errno.EROFS, errno.EACCES, errno.EIO, errno.EFBIG}
# of a write that the disk took only in part numpy and torch give no error number
CUT_SHORT = re.compile(r"\d+ requested and \d+ written|unexpected pos \d+ vs \d+|iostream error")


def size_text(count: float) -> str:
    """A number of bytes for people: `12.3 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            if unit == "B":
                return f"{count:.0f} {unit}"
            return f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def existing(path: Path) -> Path:
    """`path`, or the closest folder above it that exists."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())


def free_bytes(path: Path) -> int:
    """Bytes that can still be written on the disk of `path`, which need not exist yet."""
    return shutil.disk_usage(existing(path)).free


def fault_number(error: BaseException) -> int | None:
    """The error number of a full, read-only or failing disk, also out of the texts of safetensors, torch and numpy."""
    if isinstance(error, OSError) and error.errno is not None:
        if error.errno in FAULTS:
            return error.errno
        return None
    text = str(error)
    number = re.search(r"\(os error (\d+)\)", text)
    if number:  # Rust's
        if int(number.group(1)) in FAULTS:
            return int(number.group(1))
        return None
    if CUT_SHORT.search(text):
        return errno.ENOSPC
    return next((number for number in FAULTS if text.endswith(os.strerror(number))), None)


def disk_fault(error: BaseException, path: Path) -> UserError | None:
    """The one line for an error while `path` was written; None where neither it nor what led to it is a disk fault."""
    chain: list[BaseException] = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    faults = [(link, number) for link in chain if (number := fault_number(link))]
    if not faults:
        return None
    line = next((link for link in chain if isinstance(link, UserError)), None)
    if line:
        return line  # to close what could not be written has failed once more
    last_fault, number = faults[-1]
    place = path if number in FULL else Path(getattr(last_fault, "filename", None) or path)
    disk, names = shutil.disk_usage(existing(path)), os.statvfs(existing(path))
    if number == errno.ENOSPC and names.f_files and not names.f_favail:
        return UserError(f"{place}: {os.strerror(number)} for another file: all {names.f_files:,} inodes are in use")
    if number == errno.EFBIG:
        return UserError(f"{place}: {os.strerror(number)}: the limit on the size of files is too small (`ulimit -f`)")
    if number not in FULL:
        return UserError(f"{place}: {os.strerror(number)}")
    return UserError(
        f"{place}: {os.strerror(number)} ({size_text(disk.free)} of {size_text(disk.total)} are free there now)"
    )


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a fault of the disk while `path`, or something below it, is written into one line. Raises UserError: the
    disk is full, over quota, read-only or failing, or `path` may not be written."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        fault = disk_fault(error, path)
        if fault:
            raise fault from error
        raise
