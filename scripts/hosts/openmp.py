"""How OpenMP threads wait on a machine without GPUs: asleep, so that other processes get the core.

By default they spin. Beside two busy processes on two cores that cuts training to less than half, while sleeping costs
2% where nothing else runs (docs/DECISIONS.md).
"""

import os


def sleep_while_waiting(gpus: int) -> None:
    """Set `GOMP_SPINCOUNT=0` for what this process starts, on a machine without GPUs; a user's own setting stays.

    libgomp reads it when torch loads it, so a process that has imported torch already is not changed.
    """
    if gpus == 0 and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "0")
