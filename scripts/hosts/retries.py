"""A user's mistake ends the workflow at once: Snakemake's `retries` are for faults of machines and networks.

A script ends with `error: ` where the user is to change something and with `fault: ` where the machine failed
(scripts/common/errors.py). A job that was killed, or ended with a traceback, has neither and is tried again.
"""

from collections import Counter

from snakemake.scheduling.job_scheduler import JobScheduler

from scripts.common.terminal import error_in, read_lines, scheduler_causes
from scripts.hosts.slurm_status import SCHEDULERS_FAULTS, endings

FREE_TRIES = 10  # of a job whose node fails or that is preempted


def ended_with_users_mistake(job) -> bool:
    """Whether a failed job, or one of a group, ended with a line that says what the user is to change.

    A job that uses the network is always tried again: what answers `not found` now may answer later.
    """
    for single in getattr(job, "jobs", [job]):
        if single.resources.get("network"):
            continue
        for path in single.log:
            lines = read_lines(path)
            number = error_in(lines)
            if number is not None and lines[number].startswith("error: "):
                return True
    return False


def end_at_users_mistakes() -> None:
    """Let Snakemake not try a job again that ended with a user's mistake; a fault of the scheduler spends no try."""
    handle_error = JobScheduler._handle_error
    free_tries: Counter = Counter()

    def handled(self, job, postprocess_job: bool = True):
        state, line = endings.pop(job, (None, None))
        if line:
            scheduler_causes[str(self.workflow.dag.jobid(job))] = line
        if state in SCHEDULERS_FAULTS and free_tries[job] < FREE_TRIES:
            free_tries[job] += 1
            job.attempt -= 1
        elif state is None and ended_with_users_mistake(job):
            job.attempt = job.restart_times + 1  # as if all tries were used up
        handle_error(self, job, postprocess_job)

    JobScheduler._handle_error = handled
