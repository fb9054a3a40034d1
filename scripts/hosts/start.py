"""Run before the rules are read: set the shell of all jobs, lock the folder, wait for jobs of an earlier run."""

import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

from snakemake.io import ancient
from snakemake.jobs import Job
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from scripts.common.terminal import shorten
from scripts.experiment.arguments import argument_file
from scripts.hosts.invocation import Invocation, hold_folder, read_invocation
from scripts.hosts.slurm_queue import report_pending, wait_for_earlier
from scripts.hosts.slurm_status import keep_to_squeue
from scripts.hosts.stopping import end_at_users_mistakes, interrupt_once


async def nothing_is_written(job) -> None:
    """In a dry run, in the place of Snakemake's refusal of outputs that may not be overwritten."""


def prepare(workflow) -> None:
    """Obey `seconds-between-status-checks`; let a dry run look at results that one may only read."""
    # Snakemake 9.27 asks for the size of inputs within its own event loop, and then does without
    warnings.filterwarnings("ignore", "coroutine 'InputFiles", RuntimeWarning)
    if workflow.output_settings.dryrun:
        Job.check_protected_output = nothing_is_written
    if workflow.is_main_process:
        # the Slurm executor would wait ten seconds more after each look, up to three minutes
        RemoteExecutor.next_seconds_between_status_checks = property(
            lambda self: self.workflow.remote_execution_settings.seconds_between_status_checks, lambda self, value: None
        )


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
        interrupt_once()
        hold_folder(call.locks)
        if slurm:
            keep_to_squeue()
            wait_for_earlier()
            report_pending()
    return call


def one_of(names: Iterable[str]) -> str:
    """A wildcard constraint that matches exactly these names; without any it matches nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def ancient_inputs(*paths: Path) -> list:
    """Inputs that must exist but whose manifest says whether they changed."""
    return [ancient(str(path)) for path in paths]


def argument_writer(folder: Path, call: Invocation | None) -> Callable[..., str]:
    """The function `by_file("--sources", *names)` of the rules; it writes only where jobs run, not in a dry run.

    A single value stays on the command line, behind its option.
    """

    def by_file(option: str, *values: str) -> str:
        if len(values) == 1:
            return f"{option}={values[0]}"
        return argument_file(folder, option, *values, write=call is None or call.runs_jobs)

    return by_file
