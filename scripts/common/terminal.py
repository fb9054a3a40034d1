"""What a run prints: a line per finished job, and of a failed job its log's path and, last of all, its last lines.

rules/common.smk calls `shorten(workflow)`. Snakemake's own account of each job is 10 to 20 lines; it stays in
`.snakemake/log/`. Nothing is changed in a dry run, nor with `--verbose`, `--printshellcmds` or `--quiet`.
"""

import logging
import re
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
RESTART = re.compile(r"Trying to restart job (\S+)\.$")
ERROR = re.compile(r"error: |[\w.]+(Error|Exception)\b")
END = "At least one job did not complete successfully"


def tail(path: Path) -> list[str]:
    """The last lines of a log, the last `error: ` line at the end; none where it cannot be read."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    if not errors:
        return lines[-LINES:]
    last = lines[errors[-1]]  # several ranks of a stage may have written it
    return [*(line for line in lines[: errors[-1]] if line != last), last][-LINES:]


def has_error(paths: list[str]) -> bool:
    """Whether one of these logs ends in an error line or a traceback."""
    return any(ERROR.match(line) for path in paths for line in tail(Path(path))[-1:])


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
        self.groups: dict[str, list[str]] = {}  # the jobs of a group that failed

    def keep(self, record: logging.LogRecord) -> bool:
        """Remember what later lines need; whether this record is to be printed."""
        event, text = getattr(record, "event", None), str(record.msg)
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
        if restarted := RESTART.match(text):
            for job in self.groups.get(restarted[1], [restarted[1]]):
                self.failed.pop(job, None)
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
        if restarted := RESTART.match(text):
            return f"trying again: {self.names.get(restarted[1], restarted[1])}"
        if END in text:
            return self.end()
        return self.below.format(record)

    def name(self, record: logging.LogRecord) -> str:
        return self.names.get(str(record.jobid), record.rule_name)

    def end(self) -> str:
        """What failed, each with the last lines of its log: the last lines of all."""
        lines = []
        for job, logs in self.failed.items():
            log = next((log for log in logs if tail(Path(log))), ", ".join(logs))  # on Slurm there are several
            lines += [f"{self.names.get(job, job)} failed; the last lines of {log}:", *tail(Path(log))]
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
