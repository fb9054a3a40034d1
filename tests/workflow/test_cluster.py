"""Profile a40 on a real Slurm: the whole DAG, what its jobs ask for, the ranks of a stage, and a Snakemake that dies.

Slurm's daemons start each job. Where nothing is killed, the job's Python programs are forks (tests/forked.py).
Longer faults are in test_cluster_faults.py.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tests import forked
from tests.workflow.conftest import Clone

# threads that wait must not spin: here all nodes share the same cores
MACHINE = (
    "nodes: 2\ngpus: 0\ncpu_ranks: {ranks}\nmicro_batch_size: 4\nenvironment: {{OMP_WAIT_POLICY: PASSIVE{more}}}\n"
)
SFT = "results/training/train/sft/manifest.json"
A40 = ["--profile", "a40"]


def on_cluster(clone: Clone, ranks: int = 2, **train) -> Clone:
    """Fit the profile and its machine to a cluster of two nodes without GPUs that compute; all else stays as it is."""
    path = clone.root / "profiles/a40/config.yaml"
    profile = yaml.safe_load(path.read_text())
    profile["set-resources"]["training_job"] |= {"nodes": 2, "tasks": 2, **train}
    path.write_text(yaml.safe_dump({**profile, "seconds-between-status-checks": 1, "cores": 2}))
    (clone.root / "config/machines/a40.yaml").write_text(MACHINE.format(ranks=ranks, more=""))
    return clone


def copied_to_cluster(clone: Clone, to: Path, steps: int, **keys) -> Clone:
    """A finished clone in which sft is left to do, with `steps` small steps and a checkpoint after every second."""
    clone = on_cluster(clone.copy(to), **keys)
    shutil.rmtree(clone.root / "results/work/train")
    small = {"steps": steps, "global_batch_size": 2, "eval_rows": 2}
    clone.experiment(lambda config: config["training"]["train"]["sft"].update(small))
    return clone


def checkpoint(clone: Clone, step: int) -> bool:
    return any(clone.root.glob(f"results/work/train/sft/*/checkpoint-{step}/whole.json"))


def weights(clone: Clone) -> str:
    return json.loads((clone.root / SFT).read_text())["files"]["model.safetensors"]["sha256"]


def times(job: dict[str, str]) -> tuple[datetime, datetime]:
    return datetime.fromisoformat(job["StartTime"]), datetime.fromisoformat(job["EndTime"])


def test_the_whole_dag_runs_through_profile_a40(slurm, finished, tmp_path):
    clone = on_cluster(finished.copy(tmp_path / "clone"))
    shutil.rmtree(clone.root / "results")
    shutil.rmtree(clone.root / ".snakemake")
    clone.experiment(lambda config: config["evaluation"].pop("keywords"))
    before = len(slurm.jobs())
    clone.snakemake("results/eval.json", *A40)
    jobs = slurm.jobs()[before:]

    # 2 sources, 2 datasets, 2 stages and 3 models; sources, plans, gates and report ran beside Snakemake
    names = [re.sub(r"_wildcards_.*", "", job["Comment"]).removeprefix("rule_") for job in jobs]
    assert sorted(names) == sorted(
        [
            "filter_filter",
            "signatures_signatures",
            "corpus_compose_deduplicate_pack_split_tokenizer",  # and others: a long comment is cut
            "base",
            *2 * ["train"],
            *3 * ["perplexity"],
            "baselines",
        ]
    )
    assert all(job["JobState"] == "COMPLETED" and job["Restarts"] == "0" for job in jobs)
    requested = {
        name: [job[key] for key in ("Partition", "TimeLimit", "MinMemoryNode", "NumNodes")] + [job.get("TresPerNode")]
        for name, job in zip(names, jobs, strict=True)
    }
    assert requested["filter_filter"] == ["cpu", "01:00:00", "6000M", "1", None]  # of two sources
    assert requested["base"] == ["cpu", "04:00:00", "48000M", "1", None]
    assert requested["train"] == ["gpu", "1-00:00:00", "120000M", "2", "gres:gpu:a40:2"]
    assert requested["perplexity"] == ["gpu", "04:00:00", "62.50G", "1", "gres:gpu:a40:1"]
    nice = {name: job["Nice"] for name, job in zip(names, jobs, strict=True)}
    assert nice["train"] == "0" and nice["perplexity"] == "1000"  # stages start first
    spans = sorted(times(job) for job in jobs if "perplexity" in job["Comment"])
    assert any(start < end for (_, end), (start, _) in pairwise(spans)), "no two models were evaluated side by side"

    # the same data to the byte; a model that was trained by four processes, once
    for made in ("corpus/split", "corpus/compose/instruct", "tokens/pack/instruct-1024", "training/base"):
        path = f"results/{made}/manifest.json"
        assert (clone.root / path).read_text() == (finished.root / path).read_text()
    stage = Path("results/training/train/sft")
    assert json.loads((clone.root / stage / "summary.json").read_text())["processes"] == 4
    log = (clone.root / "results/logs/training/train/sft.log").read_text()
    assert log.count("parallel: 4 processes") == log.count("step 3/3") == 1
    ours, theirs = (
        [json.loads(line).get("loss") for line in (of.root / stage / "metrics.jsonl").read_text().splitlines()]
        for of in (clone, finished)
    )
    assert [loss for loss in ours if loss] == pytest.approx([loss for loss in theirs if loss], abs=1e-3)
    assert (clone.root / "results/report.html").is_file()
    assert clone.jobs() == set()  # profile local has nothing to do here


def test_a_failing_job_shows_its_log_and_the_last_lines_of_it(slurm, finished, tmp_path):
    clone = copied_to_cluster(finished, tmp_path / "clone", steps=4, ranks=1)
    start, broken = "def main() -> None:\n", '    raise UserError("broken on purpose")\n'
    clone.replace("scripts/training/train.py", start, start + broken)
    done = clone.snakemake(SFT, *A40, "--retries", "0", check=False)
    assert done.returncode == 1
    output = done.stdout + done.stderr
    assert "log: results/logs/training/train/pretrain.log" in output
    error = r"^ *error: broken on purpose"
    assert len(re.findall(error, output, re.MULTILINE)) == 1 and re.match(error, done.stderr.splitlines()[-1])
    assert not (clone.root / SFT.replace("sft", "pretrain")).exists()


@pytest.mark.soak
def test_a_killed_snakemake_leaves_its_job_running_and_the_next_one_takes_it_over(slurm, finished, start, tmp_path):
    """`kill -9` on the login node: the job is not sent a second time, its result is kept, and its record too."""
    clone = copied_to_cluster(finished, tmp_path / "clone", steps=30, ranks=1)
    before = len(slurm.jobs("train"))
    first = start(clone, SFT, *A40)
    slurm.wait(lambda: checkpoint(clone, 2), "a checkpoint", 180)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    done = clone.snakemake(SFT, *A40)
    assert f"unlocked: the lock was left by process {first.pid} on " in done.stderr
    assert "waiting for jobs of an earlier run" in done.stderr
    assert "Nothing to be done" in done.stdout + done.stderr
    assert len(slurm.jobs("train")) == before + 1
    log = (clone.root / "results/logs/training/train/sft.log").read_text()
    assert log.count("sft: starts") == 1 and "resumes" not in log
    # the record that the job itself wrote: a changed setting is noticed
    clone.experiment(lambda config: config["training"]["train"]["sft"].update(learning_rate=5e-4))
    assert "train sft" in clone.jobs(SFT)


def test_no_job_is_sent_while_a_snakemake_is_at_work(slurm, finished, start, tmp_path):
    """A second Snakemake in the same folder is refused at once, and not after the wait, with a line about the first."""
    clone = copied_to_cluster(finished, tmp_path / "clone", steps=1000, ranks=1)
    before = len(slurm.jobs("train"))
    first = start(clone, SFT, *A40)
    slurm.wait(lambda: len(slurm.jobs("train")) > before, "the job", 60)
    for quiet in ([], ["--quiet", "all"]):
        second = clone.snakemake(SFT, *A40, *quiet, check=False)
        line = second.stderr.splitlines()[-1]
        assert second.returncode == 1
        assert line.startswith(f"error: another Snakemake works in this folder: process {first.pid} on ")
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    first.wait()
    slurm.wait(lambda: slurm.jobs("train")[-1]["JobState"] == "CANCELLED", "the job to be cancelled", 60)


@pytest.mark.soak
def test_a_job_that_slurm_will_not_start_is_named_once_with_the_reason_and_what_to_do(slurm, finished, start, tmp_path):
    clone = copied_to_cluster(finished, tmp_path / "clone", steps=2, ranks=1)
    out = clone.root / "snakemake.out"
    clone.replace("scripts/hosts/slurm_queue.py", "PENDING_SECONDS = 30", "PENDING_SECONDS = 5")
    subprocess.run(["scontrol", "update", "PartitionName=gpu", "MaxTime=60"], check=True)
    try:
        first = start(clone, SFT, *A40, python=forked.python())
        # a scheduler that is slow to come to the job leaves the reason of its submission, PartitionConfig, for a while
        slurm.wait(lambda: out.exists() and "PartitionTimeLimit" in out.read_text(), "the reason", 120)
        time.sleep(12)  # for two more looks
        [line] = [line for line in out.read_text().splitlines() if "PartitionTimeLimit" in line]
        [job] = [job for job in slurm.jobs("train") if job["JobState"] == "PENDING"]
        assert line.startswith(f"Slurm does not start job {job['JobId']} (rule_train")
        assert "PartitionTimeLimit; lower `runtime` in the profile" in line
        subprocess.run(["scontrol", "hold", job["JobId"]], check=True)
        slurm.wait(lambda: "JobHeld" in out.read_text(), "the line about the hold", 120)
        assert "it is held; `scontrol release` with its number lets it start" in out.read_text()
        subprocess.run(["scontrol", "release", job["JobId"]], check=True)
    finally:
        subprocess.run(["scontrol", "update", "PartitionName=gpu", "MaxTime=INFINITE"], check=True)
    assert first.wait(300) == 0, out.read_text()[-3000:]


@pytest.mark.parametrize("grouped", [False, True])
def test_what_sbatch_refuses_ends_with_its_own_words_and_is_not_tried_again(slurm, finished, tmp_path, grouped):
    clone = copied_to_cluster(finished, tmp_path / "clone", steps=2, ranks=1, slurm_partition="nowhere")
    (clone.root / "results/logs/training/train/sft.log").write_text("error: of an earlier run\n")
    groups = ["--groups", "train=g", "--group-components", "g=1"] if grouped else []
    done = clone.snakemake(SFT, *A40, *groups, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "Traceback" not in said
    assert "invalid partition specified: nowhere" in done.stderr.splitlines()[-1]
    assert "trying again" not in said and "of an earlier run" not in said
    assert not [job for job in slurm.jobs("train") if job["Partition"] == "nowhere"]


def test_what_needs_the_network_runs_where_snakemake_does():
    """A base from the hub and a benchmark from a repository too: compute nodes often have no network."""
    program = "from scripts.hosts.job_graph import dry_run; print(*dry_run('profiles/a40')._localrules)"
    done = subprocess.run([forked.python(), "-c", program], capture_output=True, text=True, check=True)
    assert {"fetch", "pull", "base", "problems"} <= set(done.stdout.split())
    assert not {"filter", "train", "perplexity"} & set(done.stdout.split())
