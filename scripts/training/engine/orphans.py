"""End a rank of torchrun when torchrun itself is killed: `kill -9` gives it no chance to end its ranks.

Without this the ranks live on under process 1, hold GPUs, and write to the work folder of the run that follows.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h
LAUNCHER = "STAGECRAFT_LAUNCHER"  # process id of scripts/training/launch.py, for its ranks


def die_with_torchrun() -> None:
    """Let the kernel kill this process when its parent dies, if the parent is torchrun. Linux only.

    It may have died while this process imported its modules, before the kernel was told.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return  # a single process, whose parent is a shell
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1 or os.getppid() != int(os.environ.get(LAUNCHER, os.getppid())):
        sys.exit("torchrun was killed; this rank ends")
