"""Run before the rules are read: set the shell of all jobs, lock the folder, wait for jobs of an earlier run.

Jobs on Slurm may outlive the Snakemake that sent them. Started again it would send a running job once more, two at once
into the same files; so it waits for those that are left (`wait_for_earlier`). A job that Slurm will not start is named
with Slurm's reason (`report_pending`). A script ends with `error: ` where the user is to change something, which ends
the workflow at once, and with `fault: ` where the machine failed; only that, a kill and a traceback are tried again.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
from snakemake.io import ancient
from snakemake.jobs import Job
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

from scripts.common.errors import UserError
from scripts.common.terminal import error_in, read_lines, refused, scheduler_causes, shorten
from scripts.experiment.arguments import argument_file
from scripts.hosts.invocation import Invocation, hold_folder, read_invocation
from scripts.hosts.slurm_status import (
    BUSY,
    REFUSED,
    SCHEDULERS_FAULTS,
    STOPPED_BY_SLURM,
    endings,
    keep_to_squeue,
)

SECONDS = 5  # between two looks at the queue for jobs of an earlier run
PENDING_SECONDS = 30  # between two looks at why jobs wait
# reasons that pass by themselves when jobs ahead end; the first is a job that Slurm has not looked at yet
ORDINARY = {"None", "Resources", "Priority", "Dependency", "BeginTime", "Cleaning", "Prolog"}
HELD = "it is held; `scontrol release` with its number lets it start"
REMEDIES = {
    "PartitionTimeLimit": "lower `runtime` in the profile below the partition's limit (sinfo -o '%P %l')",
    "PartitionNodeLimit": "the partition lends fewer nodes than `nodes` in the profile",
    "PartitionConfig": "the partition has no such GPUs, memory or nodes; see `scontrol show partition`",
    "BadConstraints": "no node has what the profile asks for",
    "JobHeldUser": HELD,
    "JobHeldAdmin": HELD,
    "job_requeued_in_held_state": HELD,
    "launch_failed_requeued_held": HELD,
    "ReqNodeNotAvail": "the nodes it needs are down, drained or reserved (sinfo -R)",
}


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


def squeue(fields: str, *options: str) -> list[list[str]]:
    """The fields of each of the user's jobs, as `squeue --format` names them, separated by `|`. Raises UserError: the
    queue cannot be read."""
    line = ["squeue", "--me", "--noheader", *options, "--format", fields]
    done = subprocess.run(line, check=False, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"the profile sends jobs to Slurm, and its queue cannot be read: {done.stderr.strip()}")
    return [job.split("|", fields.count("|")) for job in done.stdout.splitlines()]


def queued(folder: Path) -> dict[str, str]:
    """Job id → rule and wildcards, of the jobs that a Snakemake sent from `folder` and that have not ended. Raises
    UserError: the queue cannot be read."""
    jobs = squeue("%i|%Z|%k")
    return {job: rule for job, work_folder, rule in jobs if work_folder == str(folder) and rule.startswith("rule_")}


def wait_for_queue() -> None:
    """Wait until Slurm's queue can be read: a controller that restarts is away for some seconds. Raises UserError: it
    cannot be read for a minute."""
    until, said = time.monotonic() + QUEUE_SECONDS, False
    while True:
        try:
            queued(Path.cwd())
            return
        except UserError as error:
            if time.monotonic() > until:
                raise
            if not said:
                print(f"{error}; waiting a minute for it", file=sys.stderr)
                said = True
            time.sleep(SECONDS)


def wait_for_earlier() -> None:
    """Wait until no job of an earlier Snakemake in this folder is left."""
    if not shutil.which("squeue"):
        return
    wait_for_queue()
    shown = {}
    while jobs := queued(Path.cwd()):
        if jobs != shown:
            named = ", ".join(f"{job} ({rule})" for job, rule in jobs.items())
            print(
                f"waiting for jobs of an earlier run: {named}; to end them: scancel {' '.join(jobs)}", file=sys.stderr
            )
            shown = jobs
        time.sleep(SECONDS)


def never_starting(folder: Path) -> dict[str, tuple[str, str]]:
    """Job id → (rule and wildcards, Slurm's reason), of jobs sent from `folder` that will not start by themselves."""
    jobs = squeue("%i|%Z|%k|%r", "--states", "PENDING,REQUEUE_HOLD,SPECIAL_EXIT")
    return {
        job: (rule, reason)
        for job, work_folder, rule, reason in jobs
        if work_folder == str(folder) and rule.startswith("rule_") and reason.split(",")[0].strip("()") not in ORDINARY
    }


def report_pending(seconds: float = PENDING_SECONDS) -> None:
    """In the background, print once for each job and reason why Slurm does not start it.

    A reason is printed when it has stood for two looks: what Slurm says at submission it may replace when its scheduler
    comes to the job.
    """
    if not shutil.which("squeue"):
        return

    def report_new() -> None:
        reported = set()
        seen_before = set()
        while True:
            time.sleep(seconds)
            try:
                waiting = never_starting(Path.cwd())
            except UserError:
                continue  # Snakemake itself says so where it matters
            seen = {(job, rule, reason) for job, (rule, reason) in waiting.items()}
            for job, rule, reason in sorted(seen & seen_before - reported):
                hint = REMEDIES.get(reason.split(",")[0].replace(" ", "_"), "see `scontrol show job`")
                print(f"Slurm does not start job {job} ({rule}): {reason}; {hint}", file=sys.stderr)
            reported |= seen & seen_before
            seen_before = seen

    threading.Thread(target=report_new, daemon=True, name="pending jobs").start()


STAGES = {"scripts.training.launch", "scripts.training.train"}  # modules, on the command line of what trains
BUSY_SECONDS, LONGEST_PAUSE = 2.5, 60.0  # half of the first pause after a busy sbatch, and the longest one
QUEUE_SECONDS = 60  # for which a queue that cannot be read at the start is waited for
FREE_TRIES = 10  # of a job whose node fails or that is preempted


def ended_with_users_mistake(job) -> bool:
    """Whether a failed job, or one of a group, ended with a line that says what the user is to change."""
    for single in getattr(job, "jobs", [job]):
        for path in single.log:
            lines = read_lines(path)
            number = error_in(lines)
            if number is not None and lines[number].startswith("error: "):
                return True
    return False


def stop_stages() -> None:
    """Send SIGTERM to the stages that train below this process: each saves a checkpoint and ends."""
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if STAGES & {*process.cmdline()}:
                process.terminate()


def wait_in_turns(acquire: Callable[..., bool]) -> bool:
    """Wait for a semaphore, a second at a time.

    The kernel may give a signal to any thread. Its handler runs in the main thread, which one that went to another
    thread does not wake.
    """
    while not acquire(timeout=1):
        pass
    return True


def end_at_users_mistakes() -> None:
    """Let Snakemake not try a job again that ended with a user's mistake; a fault of the scheduler spends no try.

    A SIGTERM ends what trains here, too: Snakemake itself would wait for the end of the stage. No signal is lost. A
    closed terminal's SIGHUP is treated alike, except where it is ignored, as under nohup.
    """
    handle_error, exit_gracefully = JobScheduler._handle_error, JobScheduler.exit_gracefully
    schedule = JobScheduler.schedule
    free_tries: Counter = Counter()

    def handled(self, job, postprocess_job: bool = True):
        state, line = endings.pop(job, (None, None))
        for single in getattr(job, "jobs", [job]) if line else ():
            said = [path for path in single.log if error_in(read_lines(path)) is not None]
            if state not in STOPPED_BY_SLURM or not said:  # a stage that was stopped says itself that it saved
                scheduler_causes[str(self.workflow.dag.jobid(single))] = line
        if state == REFUSED:  # it would refuse again, and an earlier run's log says nothing of it
            for single in getattr(job, "jobs", [job]):
                refused.add(str(self.workflow.dag.jobid(single)))
            job.attempt = job.restart_times + 1
        if state in (*SCHEDULERS_FAULTS, BUSY) and free_tries[job] < FREE_TRIES and not self._user_kill:
            free_tries[job] += 1
            if state == BUSY:
                pause = min(BUSY_SECONDS * 2 ** free_tries[job], LONGEST_PAUSE)
                print(f"{line}; it is asked again in {pause:.0f} s", file=sys.stderr)
                time.sleep(pause)
            job.attempt -= 1
        elif self._user_kill or (state is None and ended_with_users_mistake(job)):
            job.attempt = job.restart_times + 1  # as if all tries were used up
        handle_error(self, job, postprocess_job)

    def stopped(self, *signal_and_frame) -> None:
        exit_gracefully(self, *signal_and_frame)
        stop_stages()

    def scheduled(self) -> bool:
        self._open_jobs.acquire = partial(wait_in_turns, self._open_jobs.acquire)
        if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            signal.signal(signal.SIGHUP, self.exit_gracefully)
        return schedule(self)

    JobScheduler._handle_error, JobScheduler.exit_gracefully = handled, stopped
    JobScheduler.schedule = scheduled


def interrupt_once() -> None:
    """Let the first Ctrl-C end the run; one that follows while it ends would break off what still has to be saved."""
    said = b"already stopping: what trains saves a checkpoint first\n"

    def interrupted(number, frame) -> None:
        signal.signal(signal.SIGINT, lambda *signal_and_frame: os.write(2, said))
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupted)


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
