"""What Slurm's queue says before and while a run sends jobs: jobs of an earlier run, and those that will not start.

Jobs may outlive the Snakemake that sent them. Started again it would send a running job once more, two at once into the
same files; so it waits for those that are left (`wait_for_earlier`). A job that Slurm will not start is named with
Slurm's reason (`report_pending`).
"""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from scripts.common.errors import UserError

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
QUEUE_SECONDS = 60  # for which a queue that cannot be read at the start is waited for


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
