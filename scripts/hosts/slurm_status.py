"""What Slurm says of the jobs that Snakemake sent: read with `squeue` alone, and with the reason of a failure.

Snakemake's plugin asks `squeue` where the profile says so. When the controller does not answer for a moment it changes
to `sacct`, and waits for ever on a cluster without accounting; a job that left the queue between two looks is waited
for as long. Here `squeue` stays what is asked. A job that it showed before and no longer shows has ended: its outputs
tell how. The states in which jobs ended are kept: a fault of the scheduler spends no try (scripts/hosts/stopping.py).
"""

import re
import subprocess
import sys
from collections.abc import Awaitable, Callable

STATUS_SECONDS = 30  # for a question about one job
# states that say nothing of the job itself
SCHEDULERS_FAULTS = {"NODE_FAIL", "BOOT_FAIL", "PREEMPTED"}
REFUSED = "refused"  # by sbatch: no job of Slurm's came to be
BUSY = "busy"  # so was sbatch, but it may take the job in a while
TRANSIENT = re.compile(
    r"Socket timed out|Unable to contact slurm controller|temporarily unable to accept|Zero Bytes were transmitted"
    r"|QOSMaxSubmit|Connection (?:refused|reset|timed out)",
    re.IGNORECASE,
)
SBATCH = re.compile(r"sbatch failed.*?The error message was '(.*?)'\.\n", re.DOTALL)
STOPPED_BY_SLURM = {"CANCELLED", "DEADLINE", "TIMEOUT"}  # with a SIGTERM before
ENDED = {*SCHEDULERS_FAULTS, *STOPPED_BY_SLURM, "OUT_OF_MEMORY"}

Statuses = dict[str, str]


class JobStates:
    """The states of the jobs in the answers of `squeue`."""

    def __init__(self):
        self.known: Statuses = {}

    def update(self, answer: Statuses | None) -> Statuses | None:
        """The answer with the jobs that have left the queue since, as completed; None where there was no answer.

        Snakemake looks for the outputs of a completed job, and fails it where they are not there. It leaves a job whose
        node failed, or that was preempted, to Slurm, and waits for ever where Slurm does not requeue it. Such a job has
        failed when a second look shows the same.
        """
        if answer is None:
            return None
        gone = {job: "COMPLETED" for job in self.known if job not in answer}
        left = {
            job: "FAILED"
            for job, state in answer.items()
            if state in SCHEDULERS_FAULTS and self.known.get(job) == state
        }
        self.known |= answer
        return answer | gone | left


def reason_of(job: str, state: str) -> str:
    """Why Slurm ended a job, for the line about its next try: `Slurm ended job 7: NODE_FAIL on n2`."""
    try:
        line = ["scontrol", "show", "job", job, "--oneliner"]
        facts = subprocess.run(line, capture_output=True, text=True, timeout=STATUS_SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        facts = ""
    nodes = re.search(r"\bNodeList=(?!\(null\))(\S+)", facts)
    return f"Slurm ended job {job}: {state}{f' on {nodes[1]}' if nodes else ''}"


class SentJobs:
    """The jobs that were sent and have not been reported as ended.

    While Snakemake asks `squeue`, the plugin's own list of active jobs is empty, and a Ctrl-C then cancels nothing.
    """

    def __init__(self):
        self.jobs: dict[str, object] = {}

    def add(self, job_info) -> None:
        if job_info.external_jobid is not None:
            self.jobs[str(job_info.external_jobid)] = job_info

    def drop(self, job_info) -> None:
        self.jobs.pop(str(job_info.external_jobid), None)

    def with_active(self, active_jobs: list) -> list:
        """All jobs that may be in Slurm's queue, each once."""
        found = dict(self.jobs)
        for job_info in active_jobs:
            found.setdefault(str(job_info.external_jobid), job_info)
        return list(found.values())


sent = SentJobs()  # by this process
states = JobStates()  # of this process's jobs
endings: dict = {}  # a failed job of Snakemake → (state, line) that Slurm gave


def keep_to_squeue() -> None:
    """Let Snakemake's plugin ask `squeue` alone where the profile names it, and keep what it says of jobs that fail."""
    import snakemake_executor_plugin_slurm as plugin  # takes a second to import

    query: Callable[..., Awaitable] = plugin.query_job_status

    async def queried(command: str, logger) -> tuple[Statuses | None, float | None]:
        answer, seconds = await query(command, logger)
        return (states.update(answer) if command.startswith("squeue") else answer), seconds

    report_error = plugin.Executor.report_job_error

    def reported(self, job_info, msg: str | None = None, **options) -> None:
        state = states.known.get(str(job_info.external_jobid), "")
        refusal = SBATCH.search(msg or "")
        if refusal:
            words = [line.removeprefix("sbatch: error: ") for line in refusal[1].splitlines() if line.strip()]
            line = f"sbatch: {'; '.join(words)}"
            endings[job_info.job] = (BUSY if TRANSIENT.search(line) else REFUSED), line
        elif state in ENDED:
            endings[job_info.job] = state, reason_of(str(job_info.external_jobid), state)
        sent.drop(job_info)
        report_error(self, job_info, msg=None if refusal else msg, **options)

    submitted, succeeded = plugin.Executor.report_job_submission, plugin.Executor.report_job_success
    cancel = plugin.Executor.cancel_jobs

    def report_submission(self, job_info, *arguments, **options) -> None:
        sent.add(job_info)
        submitted(self, job_info, *arguments, **options)

    def report_success(self, job_info, *arguments, **options) -> None:
        sent.drop(job_info)
        succeeded(self, job_info, *arguments, **options)

    def cancelled(self, active_jobs: list) -> None:
        jobs = sent.with_active(active_jobs)
        if jobs:
            named = ", ".join(f"{job.external_jobid} ({job.job.name})" for job in jobs)
            print(f"cancelling Slurm's jobs {named}", file=sys.stderr)
        cancel(self, jobs)

    plugin.query_job_status = queried
    plugin.get_min_job_age = lambda: 10**9  # by which it decides whether to ask `sacct` after all
    plugin.Executor.report_job_error = reported
    plugin.Executor.report_job_submission = report_submission
    plugin.Executor.report_job_success = report_success
    plugin.Executor.cancel_jobs = cancelled
