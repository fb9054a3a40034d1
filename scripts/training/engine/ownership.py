"""One writer per work folder: a run writes its token there when it starts, and ends when another run replaces it.

The newer start wins. So a job that Slurm requeued wins over its orphan, which lives on where slurmd was killed; and the
same holds for a colleague's job and for a second workflow (`snakemake --nolock`). The token is a file that is replaced
by an atomic rename and read anew each time, which needs no flock and works on shared filesystems.
"""

import logging
import os
import secrets
import socket
from pathlib import Path

from scripts.common.cli import UserError
from scripts.common.files import read_json, write_json

NAME = "owner.json"


class Ownership:
    """A run's claim on its work folder. Made by the first rank alone.

    Args:
        work: the stage's work folder; an earlier run's token there is replaced.
    """

    def __init__(self, work: Path):
        self.path = work / NAME
        self.token = {
            "job": os.environ.get("SLURM_JOB_ID"),
            "restart": os.environ.get("SLURM_RESTART_COUNT"),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "nonce": secrets.token_hex(8),
        }
        if self.path.is_file():
            logging.info(f"{work}: takes over from {describe(read_json(self.path))}, which was killed or still runs")
        write_json(self.path, self.token)

    def is_lost(self) -> bool:
        """Whether another run has replaced the token, or removed the folder."""
        return not self.path.is_file() or read_json(self.path) != self.token

    def lost_message(self) -> str:
        other = describe(read_json(self.path)) if self.path.is_file() else "a run that has finished"
        return f"{self.path.parent}: taken over by {other}; this run ({describe(self.token)}) ends without saving"

    def check(self) -> None:
        """Raise if the folder is another run's.

        Raises:
            UserError: it is; the line names the other run.
        """
        if self.is_lost():
            raise UserError(self.lost_message())

    def release(self) -> None:
        """Remove the token at the end of the stage."""
        if not self.is_lost():
            self.path.unlink()


def describe(token: dict) -> str:
    job = f"Slurm job {token['job']}, restart {token['restart'] or 0}, " if token["job"] else ""
    return f"{job}process {token['pid']} on {token['host']}"
