"""How a run ends: at a user's mistake, by a signal, or not at all where a job is worth another try.

A script ends with `error: ` where the user is to change something, which ends the workflow at once, and with `fault: `
where the machine failed; only that, a kill and a traceback are tried again. A signal lets the stages that train save.
"""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import psutil
from snakemake.scheduling.job_scheduler import JobScheduler

from scripts.common.terminal import error_in, read_lines, refused, scheduler_causes
from scripts.hosts.slurm_status import BUSY, REFUSED, SCHEDULERS_FAULTS, STOPPED_BY_SLURM, endings

STAGES = {"scripts.training.launch", "scripts.training.train"}  # modules, on the command line of what trains
BUSY_SECONDS, LONGEST_PAUSE = 2.5, 60.0  # half of the first pause after a busy sbatch, and the longest one
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
