"""scripts/report/commands/status.py and scripts/hosts/job_graph.py on a real run: the jobs are Snakemake's own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from scripts.hosts.job_graph import Job
from scripts.report.commands.status import SILENCE, stage_status, state_of
from tests.workflow.conftest import Clone

PINNED = {"git": "https://example.org/b", "commit": "0" * 40, "path": "data/HumanEval.jsonl"}
SUITES = {
    "code": {"benchmarks": [PINNED]},
    "completion": {"dataset": "code"},
    "human_ratings": {"of": "keywords"},
}


def jobs_of(clone: Clone) -> list[Job]:
    return [Job(**job) for job in json.loads((clone.root / "results/work/jobs.json").read_text())["jobs"]]


def status(clone: Clone) -> str:
    words = ["-m", "scripts.cli", "status", "--experiment", "config/tiny.yaml"]
    return subprocess.run([sys.executable, *words], cwd=clone.root, capture_output=True, text=True, check=True).stdout


def test_the_written_jobs_are_those_that_snakemake_runs_and_are_done_after_the_run(finished, monkeypatch):
    monkeypatch.chdir(finished.root)
    jobs = jobs_of(finished)
    assert {job.title for job in jobs} == finished.jobs("results/eval.json", "--forceall")
    assert {state_of(job, [], time.time()) for job in jobs} == {("done", "")}
    assert all(Path(job.log).is_file() for job in jobs)
    # eval.json names the code of all of them up to the gates; which archives are pulled does not change it
    codes = json.loads(Path("results/eval.json").read_text())["inputs"]["code"]
    assert {f"{job.area}.{job.rule}" for job in jobs if job.area != "report"} == {*codes} - {"sources.pull"}


def test_every_rule_has_a_row_whatever_part_was_run_last_and_after_the_experiment_was_edited(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    clone.experiment(lambda config: config["evaluation"].update(SUITES))
    shown = status(clone)  # of other settings than those of the last run
    rules = {name.split()[0] for name in clone.jobs("results/eval.json", "--forceall")}
    assert {"completion_tasks", "problems", "human_ratings"} <= rules
    assert rules - {"train"} == {line.split()[0] for line in shown.split(" rule ")[1].splitlines()[1:]}
    before = (clone.root / "results/work/jobs.json").read_bytes()
    clone.snakemake("-n", "data")
    assert (clone.root / "results/work/jobs.json").read_bytes() == before


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


# root without its right to write where the file's mode forbids it
ONLY_READS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


def test_results_that_one_may_only_read_can_be_looked_at_and_a_run_is_refused_in_one_line(finished, tmp_path):
    """As in a colleague's folder: a dry run, also of edited settings, and `status` show what they show elsewhere."""
    clone = finished.copy(tmp_path / "clone")
    clone.experiment(lambda config: config["evaluation"]["perplexity"].update(documents=5))
    words = [sys.executable, *clone.command("results/eval.json")[1:]]
    subprocess.run(["chmod", "-R", "a-w", clone.root], check=True)

    def only_reading(*line: str) -> subprocess.CompletedProcess:
        return subprocess.run([*ONLY_READS, *line], cwd=clone.root, capture_output=True, text=True, check=False)

    try:
        dry = only_reading(*words, "-n")
        assert dry.returncode == 0 and "Traceback" not in dry.stderr, dry.stdout + dry.stderr
        assert "rule perplexity:" in dry.stdout + dry.stderr
        shown = only_reading(sys.executable, "-m", "scripts.cli", "status", "--experiment", "config/tiny.yaml")
        assert shown.returncode == 0 and re.search(r"sft +done", shown.stdout), shown.stderr
        refused = only_reading(*words)
        assert refused.returncode == 1 and "Traceback" not in refused.stderr
        assert re.fullmatch(r"error: \S*\.snakemake\S*: Permission denied", refused.stderr.splitlines()[-1])
    finally:
        subprocess.run(["chmod", "-R", "u+w", clone.root], check=True)
