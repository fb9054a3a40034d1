"""What the launcher and the processes of a stage share: train.py's command line, and that no rank outlives torchrun.

`kill -9` gives torchrun no chance to end its ranks. They would live on under process 1, hold GPUs, and write to the
work folder of the run that follows.
"""

import os
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path

from scripts.common.options import parser
from scripts.common.process import end_with_parent
from scripts.experiment.machine_files import MONITORING
from scripts.experiment.settings.training import Stage

LAUNCHER = "STAGECRAFT_LAUNCHER"  # process id of scripts/training/launch.py, for its ranks


def stage_parser(description: str = "") -> ArgumentParser:
    """The options of a stage, but for `--machine` and `--threads`, which the launcher adds for each process."""
    arguments = parser(description)
    arguments.add_argument("--stage", required=True)
    arguments.add_argument("--settings", type=Stage.from_json, required=True)
    arguments.add_argument("--seed", type=int, required=True)
    arguments.add_argument("--code", required=True)
    arguments.add_argument("--origin", type=Path, required=True)
    arguments.add_argument("--shards", type=Path, required=True)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--monitoring", type=Path, default=MONITORING / "default.yaml")
    return arguments


def die_with_torchrun() -> None:
    """Let the kernel kill this process when its parent dies, if the parent is torchrun. Linux only.

    It may have died while this process imported its modules, before the kernel was told.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return  # a single process, whose parent is a shell
    end_with_parent(signal.SIGKILL)
    if os.getppid() == 1 or os.getppid() != int(os.environ.get(LAUNCHER, os.getppid())):
        sys.exit("torchrun was killed; this rank ends")
