"""scripts/report/content/jobs.py on a real run: it knows the jobs that Snakemake knows, while they run and after."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

from scripts.experiment.settings.experiment import Experiment
from scripts.report.content.jobs import SILENCE, Job, jobs, stage_status, state_of
from scripts.sources.tables.sources_table import read_sources
from tests.workflow.conftest import EXPERIMENT, Clone


def jobs_of(clone: Clone) -> list[Job]:
    sources = read_sources(clone.root / EXPERIMENT["sources"]["table"])
    return list(jobs(Experiment.model_validate(EXPERIMENT), sources, Path("results")))


def test_the_listed_jobs_are_those_that_snakemake_runs_and_are_done_after_the_run(finished, monkeypatch):
    monkeypatch.chdir(finished.root)
    listed = jobs_of(finished)
    # as `finished.jobs` names them: a raw archive without its pin
    names = {f"{job.rule} {re.sub('-[0-9a-f]{12}$', '', job.name).replace('-', ' ')}".strip() for job in listed}
    assert names == finished.jobs("results/eval.json", "--forceall")
    assert {state_of(job, [], time.time()) for job in listed} == {("done", "")}
    assert all(job.log.is_file() for job in listed)


def test_a_stage_is_watched_while_it_trains_and_after_everything_was_killed(finished, tmp_path, monkeypatch):
    clone = finished.copy(tmp_path / "clone")
    monkeypatch.chdir(clone.root)
    clone.experiment(lambda config: config["training"]["train"]["sft"].update(steps=400))
    process = subprocess.Popen(clone.command("results/eval.json"), stderr=subprocess.DEVNULL, start_new_session=True)
    sft = next(job for job in jobs_of(clone) if job.name == "sft" and job.rule == "train")
    seen = []
    while process.poll() is None and not (seen and seen[-1].steps == 400 and seen[-1].step > 2):
        seen.append(stage_status(sft, Path("results"), time.time()))
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    now = seen[-1]
    assert now.state == "running" and now.steps == 400 and now.loss > 0 and now.tokens_per_second > 0
    after = stage_status(sft, Path("results"), time.time() + 2 * SILENCE)
    assert after.state == "stopped" and after.note.startswith("no output for 20 min")
    assert after.step >= now.step and after.eta_seconds is None
