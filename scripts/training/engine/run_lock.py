"""One writer per work folder: a run writes its token there when it starts, and ends when another run replaces it.

The newer start wins. So a job that Slurm requeued wins over its orphan, which lives on where slurmd was killed; and the
same holds for a colleague's job and for a second workflow (`snakemake --nolock`). The token is a file that is replaced
by an atomic rename and read again each time, which needs no flock and works on shared filesystems.

A run that is killed leaves its token behind. Whether its process still runs can then be told on its own host, and
elsewhere from Slurm's queue (`state_of`).

Imports no torch: the Snakefile imports it through pruning.py.
"""

import logging
import os
import secrets
import shutil
import subprocess
from enum import Enum
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json_or_empty, write_json
from scripts.common.process import runs_here, this_process

NAME = "owner.json"


class State(Enum):
    """What is known of the run that a token names."""

    RUNS = "runs"
    ENDED = "ended"
    UNKNOWN = "unknown"


class Ownership:
    """A run's claim on its work folder. Made by the first rank alone. `work`: the stage's work folder; an earlier run's
    token there is replaced."""

    def __init__(self, work: Path):
        self.path = work / NAME
        self.token = {
            "job": os.environ.get("SLURM_JOB_ID"),
            "restart": os.environ.get("SLURM_RESTART_COUNT"),
            **this_process(),
            "nonce": secrets.token_hex(8),
        }
        if self.path.is_file():
            other = describe(read_json_or_empty(self.path))
            logging.info(f"{work}: takes over from {other}, which was killed or still runs")
        write_json(self.path, self.token)

    def is_lost(self) -> bool:
        """Whether another run has replaced the token, or removed the folder."""
        return not self.path.is_file() or read_json_or_empty(self.path) != self.token

    def lost_message(self) -> str:
        other = "a run that has finished"
        if self.path.is_file():
            other = describe(read_json_or_empty(self.path))
        return f"{self.path.parent}: taken over by {other}; this run ({describe(self.token)}) ends without saving"

    def check(self) -> None:
        """Raise if the folder is another run's. Raises UserError: it is; the line names the other run."""
        if self.is_lost():
            raise UserError(self.lost_message())

    def release(self) -> None:
        """Remove the token at the end of the stage."""
        if not self.is_lost():
            self.path.unlink()


def describe(token: dict) -> str:
    """The run of a token; one that cannot be read, as after a power cut, says nothing."""
    if not token:
        return "a run whose owner.json cannot be read"
    job = ""
    if token["job"]:
        job = f"Slurm job {token['job']}, restart {token['restart'] or 0}, "
    return f"{job}process {token['pid']} on {token['host']}"


def state_of(token: dict) -> State:
    """Whether the run that wrote a token still runs, as far as can be told from this host.

    A token that cannot be read was cut short when its host went down: its run has ended.
    """
    if not token:
        return State.ENDED
    here = runs_here(token)
    if here is not None:
        return State.RUNS if here else State.ENDED
    if token["job"] and shutil.which("squeue"):
        line = ["squeue", "--noheader", "--jobs", token["job"], "--format", "%T"]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if "Invalid job id" in done.stderr:  # ended so long ago that Slurm has forgotten it
            return State.ENDED
        if not done.returncode:
            if done.stdout.strip():
                return State.RUNS
            return State.ENDED
    return State.UNKNOWN
