"""Run before the rules are read: set the shell of all jobs, lock the folder, wait for jobs of an earlier run."""

import shlex
import sys
from pathlib import Path

from scripts.common.terminal import shorten
from scripts.hosts.folder_lock import hold_folder
from scripts.hosts.invocation import Invocation, read_invocation
from scripts.hosts.retries import end_at_users_mistakes
from scripts.hosts.slurm import prepare, report_pending, wait_for_earlier
from scripts.hosts.slurm_status import keep_to_squeue

workflows: list = []  # the workflows that this process has read, for a command that runs Snakemake in its own process


def set_shell(workflow, shell) -> None:
    """Set what every job's command begins and ends with.

    A prefix replaces Snakemake's own `set -euo pipefail`, without which `tee` hides that a script failed. The PATH lets
    jobs find this environment's programs also where it was not activated.
    """
    programs = shlex.quote(str(Path(sys.executable).parent)).replace("{", "{{").replace("}", "}}")
    shell.prefix(f"set -euo pipefail; export PATH={programs}:$PATH; ")
    if shorten(workflow):
        # a failed job's error line is in its log, whose last lines end the run
        shell.suffix("| sed -u '/^error: /d; /^fault: /d'")


def begin(workflow, slurm: bool) -> Invocation | None:
    """Hold the working folder, if this process runs jobs, and wait for those of an earlier run.

    Returns:
        how Snakemake was called; None in a process that it started for a job.

    Raises:
        UserError: another Snakemake works here, or Slurm's queue cannot be read.
    """
    prepare(workflow)
    if workflow.is_main_process:
        end_at_users_mistakes()
    workflows.append(workflow)
    if not workflow.is_main_process:
        return None
    call = read_invocation()
    if call.runs_jobs and not call.inner:
        hold_folder(call.locks)
        if slurm:
            keep_to_squeue()
            wait_for_earlier()
            report_pending()
    return call
