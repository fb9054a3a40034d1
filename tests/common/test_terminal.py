"""scripts/common/terminal.py: lines of failed groups and of jobs that are tried again. Real runs: tests/workflow."""

import logging

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from scripts.common.terminal import END, MORE_MEMORY, Shortened, tail


@pytest.fixture
def printed(tmp_path, monkeypatch):
    """A function that gives the line of a record, or None where it is not printed."""
    monkeypatch.chdir(tmp_path)
    shortened = Shortened(logging.Formatter())

    def line(text: str | None = None, **extra) -> str | None:
        record = logging.LogRecord("snakemake", logging.INFO, "", 0, text, (), None)
        vars(record).update(extra)
        return shortened.format(record) if shortened.keep(record) else None

    return line


def start(printed, jobid: int, rule: str, **wildcards) -> None:
    assert printed(event=LogEvent.JOB_INFO, jobid=jobid, rule_name=rule, wildcards=wildcards) is None


def fail(printed, jobid: int, log: str, indent: bool = False) -> str | None:
    return printed(event=LogEvent.JOB_ERROR, jobid=jobid, rule_name="?", log=[log], indent=indent)


def test_a_failed_group_is_reported_as_its_failed_job_alone_and_not_at_all_if_it_is_tried_again(printed, tmp_path):
    start(printed, 1, "split")
    start(printed, 2, "compose", dataset="code")
    (tmp_path / "split.log").write_text("10:00:00 split: 3 documents\n")
    (tmp_path / "compose.log").write_text("10:00:01 compose: starts\nerror: no documents\nafter that\n")
    group = {"groupid": "corpus", "aux_logs": ["slurm.log"], "job_error_info": [{"jobid": 1}, {"jobid": 2}]}
    for attempt in (1, 2):
        assert printed(event=LogEvent.GROUP_ERROR, **group) == "failed: a job of group corpus; log: slurm.log"
        assert fail(printed, 1, "split.log", indent=True) is None
        assert fail(printed, 2, "compose.log", indent=True) == "failed: compose code; log: compose.log"
        if attempt == 1:
            line = "trying again: corpus; it ended with: no documents"
            assert printed("Trying to restart job corpus.") == line
            assert printed(END).startswith("error: the run failed")
    assert printed(END, event=LogEvent.ERROR).splitlines() == [
        "compose code failed; the last lines of compose.log:",
        "10:00:01 compose: starts",
        "error: no documents",
    ]


def test_a_run_that_was_stopped_says_so_in_its_last_line(printed, tmp_path):
    start(printed, 1, "train", stage="sft")
    printed("Will exit after finishing currently running jobs (scheduler).")
    last = "stopped by a signal; run the same command again to go on"
    assert printed(END) == last
    (tmp_path / "sft.log").write_text("fault: sft: stopped by SIGTERM\n")
    fail(printed, 1, "sft.log")
    assert printed(END).splitlines()[1:] == ["fault: sft: stopped by SIGTERM", last]


def test_finished_jobs_are_one_line_with_their_wildcards(printed):
    start(printed, 7, "train", stage="sft")
    assert printed(event=LogEvent.JOB_FINISHED, job_id=7) is None
    assert printed(event=LogEvent.PROGRESS, done=3, total=9) == "3 of 9 done: train sft"
    assert printed("Select jobs to execute...") is None
    assert printed("Job 7 has been submitted with SLURM jobid 12.") == "Job 7 has been submitted with SLURM jobid 12."


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (
            "error: sft: stopped by SIGTERM\nsrun: error: n1: task 0: Exited\n",
            "; it ended with: sft: stopped by SIGTERM",
        ),
        (
            "fault: rank 1 on n2 was killed by SIGKILL\nsrun: error: n2: task 1: Exited\n"
            "fault: sft: the connection to another rank was lost: it has ended\n"
            "rank 0 on n1 ended with exit code 1; its error is above\n",
            "; it ended with: rank 1 on n2 was killed by SIGKILL",
        ),
        (
            "error: results/work: No space left on device\nsrun: error: n1: task 0: Exited\n"
            "fault: sft: the connection to another rank was lost: it has ended\n",
            "; it ended with: results/work: No space left on device",
        ),
        ("libgomp: Thread creation failed: Resource temporarily unavailable\n", f"; it ended with: {MORE_MEMORY}"),
        ("Traceback (most recent call last):\nValueError: 1\n", "; it ended with: ValueError: 1"),
        ("", ""),
    ],
)
def test_a_job_that_is_tried_again_says_why_because_its_log_starts_over(printed, tmp_path, log, cause):
    start(printed, 1, "train", stage="sft")
    (tmp_path / "sft.log").write_text(log)
    fail(printed, 1, "sft.log")
    if "error: " in log or MORE_MEMORY in cause:
        assert tail("sft.log")[-1].partition(": ")[2] == cause.removeprefix("; it ended with: ")
    assert printed("Trying to restart job 1.") == f"trying again: train sft{cause}"
