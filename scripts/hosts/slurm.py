"""What Snakemake lacks when its jobs go to Slurm. `prepare` is called when a workflow starts, `wait` before it plans.

Jobs may outlive the Snakemake that sent them. Its main process alone writes records, when it sees a job end, and knows
nothing of jobs that another one sent. Killed and started again it would send a running job once more, two at once
into the same files; and what ended meanwhile would have no record, so that changed settings would pass it by.
So here jobs write their records themselves, and the next Snakemake waits for those that are left.
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

from snakemake.persistence import PersistenceBase
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from scripts.common.cli import UserError

LOCKS = Path(".snakemake/locks")
SECONDS = 5  # between two looks at the queue


def prepare(workflow) -> None:
    """Obey `seconds-between-status-checks`; in a job, write its records as soon as it has ended well."""
    if workflow.is_main_process:
        # the Slurm executor would wait ten seconds more after each look, up to three minutes
        RemoteExecutor.next_seconds_between_status_checks = property(
            lambda self: self.workflow.remote_execution_settings.seconds_between_status_checks, lambda self, value: None
        )
    elif workflow.remote_exec:
        finished = PersistenceBase.finished

        async def recorded(self, job):
            # the one switch that makes Snakemake write records in another process than the main one
            settings = workflow.remote_execution_settings
            settings.immediate_submit = True
            try:
                await finished(self, job)
            finally:
                settings.immediate_submit = False

        PersistenceBase.finished = recorded


def queued(folder: Path) -> dict[str, str]:
    """Job id → rule and wildcards, of the jobs that a Snakemake sent from `folder` and that have not ended.

    Raises:
        UserError: the queue cannot be read.
    """
    asked = ["squeue", "--me", "--noheader", "--format", "%i|%Z|%k"]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"the profile sends jobs to Slurm, and its queue cannot be read: {done.stderr.strip()}")
    jobs = [line.split("|", 2) for line in done.stdout.splitlines()]
    return {job: what for job, where, what in jobs if where == str(folder) and what.startswith("rule_")}


def wait(workflow) -> None:
    """Wait until no job of an earlier Snakemake in this folder is left.

    Not for a dry run, and not where a lock says that that Snakemake may be alive: its own message follows.

    Raises:
        UserError: the queue cannot be read.
    """
    dry = any(word.startswith(("-n", "--dry")) for word in sys.argv)
    if not workflow.is_main_process or not shutil.which("squeue") or dry or any(LOCKS.glob("*.lock")):
        return
    told = {}
    while jobs := queued(Path.cwd()):
        if jobs != told:
            named = ", ".join(f"{job} ({what})" for job, what in jobs.items())
            print(
                f"waiting for jobs of an earlier run: {named}; to end them: scancel {' '.join(jobs)}", file=sys.stderr
            )
            told = jobs
        time.sleep(SECONDS)
