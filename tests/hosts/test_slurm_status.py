"""scripts/hosts/slurm_status.py: a controller that is away is waited for; a job that left the queue has ended."""

import asyncio
import logging
from types import SimpleNamespace

import pytest

from scripts.hosts import slurm_status
from scripts.hosts.slurm_status import JobStates, SentJobs, reason_of


@pytest.fixture
def program(monkeypatch, tmp_path):
    """Put a program first on the PATH that prints what it is told to."""

    def write(name: str, lines: str, code: int = 0) -> None:
        (tmp_path / name).write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return write


def test_a_job_that_was_shown_and_is_gone_has_ended_and_no_answer_says_nothing():
    states = JobStates()
    assert states.update({"7": "RUNNING", "8": "PENDING"}) == {"7": "RUNNING", "8": "PENDING"}
    assert states.update(None) is None  # the controller is away: unknown is not failed
    assert states.update({"8": "RUNNING"}) == {"7": "COMPLETED", "8": "RUNNING"}
    assert states.update({}) == {"7": "COMPLETED", "8": "COMPLETED"}


def test_a_job_that_slurm_does_not_requeue_has_failed_and_its_own_state_is_kept():
    states = JobStates()
    assert states.update({"7": "NODE_FAIL", "8": "PREEMPTED"}) == {"7": "NODE_FAIL", "8": "PREEMPTED"}
    assert states.update({"7": "PENDING", "8": "PREEMPTED"}) == {"7": "PENDING", "8": "FAILED"}  # 7 was requeued
    assert states.known["8"] == "PREEMPTED"
    assert states.update({"7": "NODE_FAIL", "8": "PREEMPTED"})["7"] == "NODE_FAIL"  # once more, later


@pytest.mark.slow
def test_the_plugin_asks_squeue_although_the_controller_does_not_answer_and_sacct_is_there(program, monkeypatch):
    import snakemake_executor_plugin_slurm as plugin

    for name in ("query_job_status", "get_min_job_age"):
        monkeypatch.setattr(plugin, name, getattr(plugin, name))
    for name in ("report_job_error", "report_job_submission", "report_job_success", "cancel_jobs"):
        monkeypatch.setattr(plugin.Executor, name, getattr(plugin.Executor, name))
    monkeypatch.setattr(slurm_status, "states", JobStates())
    slurm_status.keep_to_squeue()
    program("scontrol", "slurm_load_ctl_conf error: Unable to contact slurm controller", 1)
    assert plugin.get_min_job_age() > 3600  # below two minutes it would ask sacct
    command = plugin.query_job_status_squeue("run")

    def answer() -> dict | None:
        return asyncio.run(plugin.query_job_status(command, logging.getLogger()))[0]

    program("squeue", "7|RUNNING")
    assert answer() == {"7": "RUNNING"}
    program("squeue", "slurm_load_jobs error: Unable to contact slurm controller", 1)
    assert answer() is None
    program("squeue", "9|NODE_FAIL")
    assert answer() == {"7": "COMPLETED", "9": "NODE_FAIL"}


def job_info(number):
    return SimpleNamespace(external_jobid=number, job=SimpleNamespace(name="train"))


def test_what_was_sent_and_has_not_ended_is_cancelled_though_the_plugins_list_is_empty_while_it_asks():
    sent = SentJobs()
    jobs = [job_info(number) for number in ("7", "8", "9")]
    for job in jobs:
        sent.add(job)
    sent.add(job_info(None))  # refused by sbatch
    sent.drop(jobs[1])
    assert sent.with_active([]) == [jobs[0], jobs[2]]
    other = job_info("11")
    assert sent.with_active([jobs[0], other]) == [jobs[0], jobs[2], other]


@pytest.mark.slow
def test_a_group_of_jobs_is_named_and_cancelled(monkeypatch, capsys):
    """Snakemake's GroupJob has a name, and no rule."""
    import snakemake_executor_plugin_slurm as plugin

    for name in ("query_job_status", "get_min_job_age"):
        monkeypatch.setattr(plugin, name, getattr(plugin, name))
    for name in ("report_job_error", "report_job_submission", "report_job_success"):
        monkeypatch.setattr(plugin.Executor, name, getattr(plugin.Executor, name))
    cancelled = []
    monkeypatch.setattr(plugin.Executor, "cancel_jobs", lambda self, jobs: cancelled.extend(jobs))
    slurm_status.keep_to_squeue()
    group = SimpleNamespace(external_jobid="7", job=SimpleNamespace(name="corpus_pack_split"))
    plugin.Executor.cancel_jobs(None, [group])
    assert cancelled == [group] and "7 (corpus_pack_split)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "transient"),
    [
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", True),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", True),
        ("sbatch: error: QOSMaxSubmitJobPerUserLimit", True),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition combination", False),
        ("sbatch: error: Batch job submission failed: Requested node configuration is not available", False),
    ],
)
def test_a_busy_controller_is_asked_again_and_a_refusal_is_not(words, transient):
    assert bool(slurm_status.TRANSIENT.search(words)) == transient


def test_the_reason_names_the_node_where_slurm_still_knows_it(program):
    program("scontrol", "JobId=9 JobName=x JobState=NODE_FAIL Reason=NodeDown NodeList=n2 BatchHost=n2")
    assert reason_of("9", "NODE_FAIL") == "Slurm ended job 9: NODE_FAIL on n2"
    program("scontrol", "slurm_load_jobs error: Invalid job id specified", 1)
    assert reason_of("9", "TIMEOUT") == "Slurm ended job 9: TIMEOUT"
