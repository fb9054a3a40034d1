"""Extensions that DeepSpeed compiles at first use (CPU Adam, shared-memory collectives): remove locks of killed builds.

    clear_stale_locks()    # before deepspeed builds or loads an extension

PyTorch guards a build by a file named `lock`. A process that is killed while it compiles leaves that file behind, and
every later one waits for it without end (torch/utils/file_baton.py). So each process that may build holds a shared
flock until it ends, which the kernel releases however that happens; a process that finds the flock free removes locks.
"""

import fcntl
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from torch.utils.cpp_extension import get_default_build_root

lock_files: list[TextIO] = []  # open for as long as this process lives


def build_root() -> Path:
    """The folder below which extensions are built."""
    return Path(os.environ.get("TORCH_EXTENSIONS_DIR") or get_default_build_root())


def clear_stale_locks() -> None:
    """Register this process as one that may build extensions; if it is the only one, remove the locks left there."""
    build_root().mkdir(parents=True, exist_ok=True)
    users = (build_root() / ".users").open("w")
    lock_files.append(users)
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass  # another process may be building
    else:
        for lock in [*build_root().glob("*/lock"), *build_root().glob("*/*/lock")]:
            logging.info(f"{lock}: left by a process that was killed; removed")
            lock.unlink(missing_ok=True)
    fcntl.flock(users, fcntl.LOCK_SH)


def log_missing_builds(names: Iterable[str]) -> None:
    """Log the extensions that DeepSpeed is about to compile, as it does so for minutes without a word."""
    for name in names:
        if not any(build_root().glob(f"**/{name}.so")):
            logging.info(f"DeepSpeed compiles {name} into {build_root()}, once on this machine: one to three minutes")
