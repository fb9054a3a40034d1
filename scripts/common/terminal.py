"""What a run prints: one line per finished job; for a failed job its log's path, and at the end the log's last lines.

rules/common.smk calls `shorten(workflow)`. Snakemake's own account of each job is 10 to 20 lines; it stays in
`.snakemake/log/`. Nothing is changed in a dry run, nor with `--verbose`, `--printshellcmds` or `--quiet`.
"""

import logging
import re
from itertools import chain
from pathlib import Path

from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

LINES = 12  # of a failed job's log
HIDDEN = {
    LogEvent.WORKFLOW_STARTED,
    LogEvent.JOB_STARTED,
    LogEvent.JOB_FINISHED,
    LogEvent.GROUP_INFO,
    LogEvent.RESOURCES_INFO,
}
# lines without an event that say nothing about this run, and those that a line of ours replaces
CHATTER = (
    "Assuming unrestricted shared filesystem usage",
    "Building DAG of jobs",
    "Using shell: ",
    "Conda environments: ignored",
    "Group jobs: inactive",
    "Select jobs to execute",
    "Shutting down, this might take some time",
    "Exiting because a job execution failed",
    "RuleException:\nCalledProcessError in file",
)
BEGINNINGS = ("error: ", "fault: ")  # of the line that a script ends with: scripts/common/errors.py
RESTART = re.compile(r"Trying to restart job (\S+)\.$")
ERROR = re.compile(r"error: |fault: |[\w.]+(Error|Exception)\b")
# A stage's ranks write one log. The line about a rank that was killed (scripts/training/launch.py) says why it failed.
# That others lost a rank (scripts/training/engine/parallel.py) only follows from its fault, also where it comes later.
KILLED = re.compile(r"fault: rank \d+ on \S+ was killed")
LOST = re.compile(r"fault: \S+: the connection to another rank was lost")
# what libraries say when the kernel gives a program no more memory, some of them in words that do not speak of it
NO_MEMORY = re.compile(
    r"Thread creation failed|can't start new thread|[Cc]an(no|')t allocate memory|MemoryError|bad_alloc"
)
MORE_MEMORY = "too little memory or address space: give the job more `mem_mb`, or raise `ulimit -v` and `ulimit -u`"
END = "At least one job did not complete successfully"
# what Snakemake says when it was stopped by SIGTERM, and by an interrupt
STOPS = ("Will exit after finishing currently running jobs", "Terminating processes on user request")
STOPPED = "stopped by a signal; run the same command again to go on"


scheduler_causes: dict[str, str] = {}  # number of a failed job → why the scheduler ended it
refused: set[str] = set()  # numbers of the jobs that the scheduler did not take


def read_lines(path: str) -> list[str]:
    """The lines of a log; none where it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []


def error_in(lines: list[str]) -> int | None:
    """The number of the line that says why a job failed, the last such one; None where there is none."""
    errors = [number for number, line in enumerate(lines) if line.startswith(BEGINNINGS)]
    killed = [number for number in errors if KILLED.match(lines[number])]
    causes = [number for number in errors if not LOST.match(lines[number])]
    return (killed or causes or errors or [None])[-1]


def without_memory(lines: list[str]) -> bool:
    """Whether the last lines of a log say that the program got no more memory."""
    return any(map(NO_MEMORY.search, lines[-LINES:]))


def tail(path: str) -> list[str]:
    """The last lines of a log, the one that says why the job failed at the end; none where it cannot be read."""
    lines = read_lines(path)
    number = error_in(lines)
    if number is None:
        if without_memory(lines):
            return [*lines[1 - LINES :], f"fault: {MORE_MEMORY}"]
        return lines[-LINES:]
    last = lines[number]  # several ranks of a stage may have written it
    return [*(line for line in lines[:number] if line != last), last][-LINES:]


def cause(paths: list[str]) -> str:
    """The one line of a failed job's logs that says best why it failed; empty where they hold none."""
    for lines in map(read_lines, paths):
        number = error_in(lines)
        shown = [line for line in lines if line.strip() and not line.startswith("srun: ")]
        if number is not None:
            return lines[number].partition(": ")[2]
        if without_memory(shown):
            return MORE_MEMORY
        if shown:
            return shown[-1]
    return ""


def has_error(paths: list[str]) -> bool:
    """Whether one of these logs ends in an error line or a traceback."""
    last_lines = chain.from_iterable(tail(path)[-1:] for path in paths)
    return any(map(ERROR.match, last_lines))


class Shortened(logging.Formatter):
    """Snakemake's records as short lines; `keep` says which ones are printed at all.

    Job ids are kept as text: a group of jobs has a name for one.
    """

    def __init__(self, below: logging.Formatter):
        super().__init__()
        self.below = below
        self.names: dict[str, str] = {}  # of all jobs that were started
        self.finished: list[str] = []  # since the last line about progress
        self.failed: dict[str, list[str]] = {}  # the logs of jobs that failed and were not tried again
        self.causes: list[str] = []  # of the job that is tried again: its next attempt overwrites the log
        self.groups: dict[str, list[str]] = {}  # the jobs of a group that failed
        self.stopped = False

    def keep(self, record: logging.LogRecord) -> bool:
        """Remember what later lines need; whether this record is to be printed."""
        event, text = getattr(record, "event", None), str(record.msg)
        if text.startswith(STOPS):
            self.stopped = True
        if event == LogEvent.JOB_INFO:
            self.names[str(record.jobid)] = " ".join([record.rule_name, *map(str, record.wildcards.values())])
            return False
        if event == LogEvent.JOB_FINISHED:
            self.finished.append(str(record.job_id))
        if event == LogEvent.GROUP_ERROR:
            self.groups[str(record.groupid)] = [str(job["jobid"]) for job in record.job_error_info]
        if event == LogEvent.JOB_ERROR:
            if record.indent and not has_error(record.log):
                return False  # of a group every job is named, also those that ended well or never began
            self.failed[str(record.jobid)] = list(record.log)
        restarted = RESTART.match(text)
        if restarted:
            jobs = self.groups.get(restarted[1], [restarted[1]])
            self.causes = [line for job in jobs if (line := cause(self.failed.pop(job, [])))]
            line = scheduler_causes.pop(restarted[1], None)
            if line:  # says more than the last line of a log that was cut
                self.causes = [line]
        return event not in HIDDEN and not text.startswith(CHATTER)

    def format(self, record: logging.LogRecord) -> str:
        event, text = getattr(record, "event", None), str(record.msg)
        if event == LogEvent.RUN_INFO:
            jobs = {name: count for name, count in record.stats.items() if name != "total"}
            return f"{sum(jobs.values())} jobs: {', '.join(f'{name} {count}' for name, count in jobs.items())}"
        if event == LogEvent.PROGRESS:
            done, self.finished = self.finished, []
            return f"{record.done} of {record.total} done: {', '.join(self.names.get(job, job) for job in done)}"
        if event == LogEvent.JOB_ERROR:
            return f"failed: {self.name(record)}; log: {', '.join(record.log)}"
        if event == LogEvent.GROUP_ERROR:
            return f"failed: a job of group {record.groupid}; log: {', '.join(record.aux_logs)}"
        restarted = RESTART.match(text)
        if restarted:
            name = self.names.get(restarted[1], restarted[1])
            return "; ".join([f"trying again: {name}", *(f"it ended with: {line}" for line in self.causes)])
        if END in text:
            return self.end()
        return self.below.format(record)

    def name(self, record: logging.LogRecord) -> str:
        return self.names.get(str(record.jobid), record.rule_name)

    def end(self) -> str:
        """What failed, each with the last lines of its log: the last lines of all."""
        lines, words = [], {}
        for job in sorted(refused):
            words.setdefault(scheduler_causes[job], []).append(self.names.get(job, job))
        for line, names in words.items():
            lines.append(
                f"{', '.join(names)} not taken by Slurm; correct the profile, or ask the cluster's people:\n{line}"
            )
        for job, logs in self.failed.items():
            if job in refused:
                continue
            log = next(filter(tail, logs), ", ".join(logs))  # on Slurm there are several
            lines += [f"{self.names.get(job, job)} failed; the last lines of {log}:", *tail(log)]
        if self.stopped:
            lines.append(STOPPED)
        return "\n".join(lines or ["error: the run failed; the lines above say why"])


def shorten(workflow) -> bool:
    """Print short lines in Snakemake's main process; whether so."""
    settings = workflow.output_settings
    if not workflow.is_main_process or settings.dryrun or settings.verbose or settings.printshellcmds or settings.quiet:
        return False
    for handler in logger.handlers:
        if handler.name == "DefaultStreamHandler":
            formatter = Shortened(handler.formatter)
            handler.setFormatter(formatter)
            handler.addFilter(formatter.keep)
    return True
