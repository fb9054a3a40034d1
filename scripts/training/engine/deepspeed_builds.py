"""Extensions that DeepSpeed compiles when it first needs them (CPU Adam, shared-memory collectives), after a kill too.

    use()    # before deepspeed builds or loads one; until this process ends

PyTorch guards a build by a file named `lock`. A process that is killed while it compiles leaves that file behind, and
every later one waits for it for good (torch/utils/file_baton.py). So each process that may build holds a shared flock,
which the kernel lets go of however the process ends; the first that finds nobody holding it removes such files.
"""

import fcntl
import logging
import os
from pathlib import Path
from typing import TextIO

from torch.utils.cpp_extension import get_default_build_root

held: list[TextIO] = []  # open for as long as this process lives


def root() -> Path:
    """The folder below which extensions are built."""
    return Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root())


def use() -> None:
    """Declare that this process may build extensions; remove what killed ones left."""
    root().mkdir(parents=True, exist_ok=True)
    users = (root() / ".users").open("w")
    held.append(users)
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass  # somebody may be building just now
    else:
        for lock in [*root().glob("*/lock"), *root().glob("*/*/lock")]:
            logging.info(f"{lock}: left by a process that was killed; removed")
            lock.unlink(missing_ok=True)
    fcntl.flock(users, fcntl.LOCK_SH)
