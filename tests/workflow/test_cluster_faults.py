"""Faults of a cluster during training: the stage still ends with the weights of an undisturbed run; by `make soak`."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from tests.workflow.conftest import Clone, processes_of
from tests.workflow.slurm import Slurm
from tests.workflow.test_cluster import A40, SFT, checkpoint, copied_to_cluster, weights

pytestmark = [
    pytest.mark.soak,
    pytest.mark.usefixtures("real"),
    pytest.mark.fault("a job, its node or its disk", "Slurm"),
]
STEPS = 14


@pytest.fixture(scope="module")
def straight(slurm, finished, tmp_path_factory) -> Clone:
    """The stage without a fault, on the same two nodes."""
    clone = copied_to_cluster(finished, tmp_path_factory.mktemp("straight") / "clone", STEPS, ranks=1)
    clone.snakemake(SFT, *A40)
    return clone


def logged_steps(clone: Clone) -> list[tuple[int, bool]]:
    """Step, and whether it is a validation, of each line of the stage's metric log."""
    path = (clone.root / SFT).with_name("metrics.jsonl")
    lines = map(json.loads, path.read_text().splitlines())
    return [(line["step"], "eval_loss" in line) for line in lines]


def scancel(slurm: Slurm, clone: Clone, job: str) -> None:
    subprocess.run(["scancel", job], check=True)


def terminated(process: psutil.Process) -> bool:
    """Whether a process that stood still has a SIGTERM waiting, or goes on or is gone because of one."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    pending = re.search(r"ShdPnd:\s*(\w+)", status)[1]
    return "State:\tT" not in status or bool(int(pending, 16) >> signal.SIGTERM - 1 & 1)


def time_limit(slurm: Slurm, clone: Clone, job: str) -> None:
    """Let the limit come near: Slurm sends the SIGTERM that the profile asks for ten minutes before it.

    It looks every 30 seconds, in which the stage would be through; so the ranks stand still until then.
    """
    ranks = [process for process in processes_of(clone, SLURM_JOB_ID=job) if "RANK" in process.environ()]
    for rank in ranks:
        rank.suspend()
    subprocess.run(["scontrol", "update", f"JobId={job}", "TimeLimit=9"], check=True)
    slurm.wait(lambda: any(map(terminated, ranks)), "the SIGTERM", 60)
    for rank in ranks:
        with suppress(psutil.NoSuchProcess):
            rank.resume()


def kernel_kills_a_rank(slurm: Slurm, clone: Clone, job: str) -> None:
    """As its out-of-memory killer does."""
    [rank] = processes_of(clone, RANK="1", SLURM_JOB_ID=job)
    rank.kill()


def node_lost(slurm: Slurm, clone: Clone, job: str) -> None:
    """The second node goes with all that ran on it, and comes back when Slurm has given it up."""
    slurm.processes["n2"].kill()
    slurm.processes["n2"].wait()
    here = processes_of(clone, SLURMD_NODENAME="n2", SLURM_JOB_ID=job)
    stepd = {parent for process in here for parent in process.parents() if parent.name().startswith("slurmstepd")}
    for process in [*stepd, *here]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    slurm.wait(lambda: slurm.nodes()["n2"].startswith("down"), "the node to be given up", 120)
    slurm.start_node("n2")


def node_lost_for_good(slurm: Slurm, clone: Clone, job: str) -> None:
    """As `node_lost`, on a cluster that does not requeue jobs: Snakemake sends it again."""
    subprocess.run(["scontrol", "update", f"JobId={job}", "Requeue=0"], check=True)
    node_lost(slurm, clone, job)


def preempted(slurm: Slurm, clone: Clone, job: str) -> None:
    """A job of a partition with priority takes the nodes for a while."""
    urgent = ["sbatch", "-p", "urgent", "-N2", "--gres=gpu:a40:2", "-o", "/dev/null", "--wrap", "sleep 5"]
    subprocess.run(urgent, check=True)
    slurm.wait(lambda: slurm.ask("squeue", "-h", "-j", job, "-t", "PREEMPTED"), "the preemption", 120)


def time_limit_in_a_save(slurm: Slurm, clone: Clone, job: str) -> None:
    """The SIGTERM comes while a checkpoint is half-written."""
    seen = set(clone.root.glob("results/work/train/sft/*/checkpoint-*"))

    def saving() -> bool:
        new = set(clone.root.glob("results/work/train/sft/*/checkpoint-*")) - seen
        if not any(folder.is_dir() and not (folder / "whole.json").exists() for folder in new):
            return False
        for rank in ranks:
            rank.suspend()
        return True

    ranks = [process for process in processes_of(clone, SLURM_JOB_ID=job) if "RANK" in process.environ()]
    end = time.monotonic() + 120
    while not saving():
        assert time.monotonic() < end, "no save was seen"
        time.sleep(0.001)
    time_limit(slurm, clone, job)


def controller_restarted(slurm: Slurm, clone: Clone, job: str) -> None:
    """The controller dies and is started again some seconds later; jobs run on meanwhile."""
    slurm.processes["slurmctld"].kill()
    slurm.processes["slurmctld"].wait()
    time.sleep(12)  # Snakemake asks for the state of its job several times in vain
    slurm.start_controller()


def rank_stopped(slurm: Slurm, clone: Clone, job: str) -> None:
    """A rank hangs for good: the others give up at the machine file's time limit for collective operations."""
    [rank] = processes_of(clone, RANK="1", SLURM_JOB_ID=job)
    rank.suspend()


FAULTS = {
    "scancel": (scancel, ["CANCELLED", "COMPLETED"], "it ended with: sft: stopped by SIGTERM at step"),
    "time limit": (time_limit, ["FAILED", "COMPLETED"], "it ended with: sft: stopped by SIGTERM at step"),
    "a rank killed": (
        kernel_kills_a_rank,
        ["FAILED", "COMPLETED"],
        r"trying again: train sft; it ended with: rank 1 on \S+ was killed by SIGKILL",
    ),
    "time limit in a save": (time_limit_in_a_save, ["FAILED", "COMPLETED"], "it ended with: sft: stopped by SIGTERM"),
    "node lost": (node_lost, ["COMPLETED"], ""),
    "node lost for good": (node_lost_for_good, ["NODE_FAIL", "COMPLETED"], r"Slurm ended job \d+: NODE_FAIL on \S+"),
    "preempted": (preempted, ["PREEMPTED", "COMPLETED"], r"Slurm ended job \d+: PREEMPTED on \S+"),
    "controller restarted": (controller_restarted, ["COMPLETED"], ""),
    "a rank stopped": (
        rank_stopped,
        ["FAILED", "COMPLETED"],
        "it ended with: sft: another process did not answer within",
    ),
}


def through_the_fault(slurm, clone, start, fault):
    """Runs stage sft with a fault once it has a checkpoint; what Snakemake wrote by the time it ended well."""
    process = start(clone, SFT, *A40)
    slurm.wait(lambda: checkpoint(clone, 4), "a checkpoint", 300)
    fault(slurm, clone, slurm.jobs("train")[-1]["JobId"])
    code = process.wait(600)
    out = (clone.root / "snakemake.out").read_text()
    assert code == 0, out[-6000:]
    return out


@pytest.mark.parametrize("name", FAULTS)
def test_a_stage_ends_with_the_weights_of_a_run_without_the_fault(slurm, straight, finished, start, tmp_path, name):
    fault, states, says = FAULTS[name]
    clone = copied_to_cluster(finished, tmp_path / "clone", STEPS, ranks=1)
    if fault is rank_stopped:
        clone.replace("config/machines/a40.yaml", "nodes: 2", "nodes: 2\ncollective_timeout: 30")
    before = len(slurm.jobs("train"))
    out = through_the_fault(slurm, clone, start, fault)
    jobs = slurm.jobs("train")[before:]
    assert [job["JobState"] for job in jobs] == states
    assert re.search(says, out)
    resumed = re.search(r"sft: resumes at step (\d+)", (clone.root / "results/logs/training/train/sft.log").read_text())
    assert bool(resumed) == (name != "controller restarted")
    assert resumed is None or 4 <= int(resumed.group(1)) < STEPS
    assert weights(clone) == weights(straight)
    assert logged_steps(clone) == logged_steps(straight)  # none twice
    # the next attempt has more time; what the scheduler did is none, and Slurm's own requeue keeps the job
    same_attempt = jobs[0]["JobState"] in ("COMPLETED", "NODE_FAIL", "PREEMPTED")
    assert jobs[-1]["TimeLimit"] == ("1-00:00:00" if same_attempt else "2-00:00:00")


def on_a_single_node(finished: Clone, to: Path) -> Clone:
    """Both ranks in one job of one step, without `mpi`."""
    clone = copied_to_cluster(finished, to, STEPS, ranks=2)
    clone.replace("config/machines/a40.yaml", "nodes: 2", "nodes: 1")
    path = clone.root / "profiles/a40/config.yaml"
    profile = yaml.safe_load(path.read_text())
    for name in ("nodes", "tasks", "tasks_per_gpu", "mpi"):
        del profile["set-resources"]["training_job"][name]
    path.write_text(yaml.safe_dump(profile))
    return clone


def test_a_time_limit_on_a_single_node_resumes_from_the_last_checkpoint(slurm, finished, start, tmp_path):
    """The SIGTERM ends Snakemake in the job's only step, and the stage before it can save another checkpoint."""
    straight, clone = (on_a_single_node(finished, tmp_path / name) for name in ("straight", "clone"))
    straight.snakemake(SFT, *A40)
    through_the_fault(slurm, clone, start, time_limit)
    assert "sft: resumes at step" in (clone.root / "results/logs/training/train/sft.log").read_text()
    assert weights(clone) == weights(straight)


def test_an_orphan_gives_way_to_the_job_that_slurm_requeued(slurm, finished, start, tmp_path):
    """slurmd is killed on the stage's node and its processes live on: Slurm starts the job again on the other node."""
    straight, clone = (on_a_single_node(finished, tmp_path / name) for name in ("straight", "clone"))
    straight.snakemake(SFT, *A40)
    process = start(clone, SFT, *A40)
    slurm.wait(lambda: checkpoint(clone, 4), "a checkpoint", 300)
    job = slurm.jobs("train")[-1]
    node = job["NodeList"]
    orphans = [process for process in processes_of(clone, SLURM_JOB_ID=job["JobId"]) if "RANK" in process.environ()]
    for rank in orphans:
        rank.suspend()  # or the stage, of 14 small steps, would end before the node is given up
    slurm.processes[node].kill()
    slurm.processes[node].wait()
    owner = next(clone.root.glob("results/work/train/sft/*/owner.json"))
    first = owner.read_text()
    try:
        # Slurm gives the node up after a minute and lets a requeued job wait for two more
        slurm.wait(lambda: owner.exists() and owner.read_text() != first, "the requeued job", 400)
        for rank in orphans:
            with suppress(psutil.NoSuchProcess):
                rank.resume()
        slurm.wait(lambda: not any(rank.is_running() for rank in orphans), "the orphan to end", 60)
        assert process.wait(600) == 0, (clone.root / "snakemake.out").read_text()[-6000:]
    finally:
        for rank in orphans:
            with suppress(psutil.NoSuchProcess):
                rank.kill()
        slurm.start_node(node)
    assert "sft: resumes at step" in (clone.root / "results/logs/training/train/sft.log").read_text()
    assert weights(clone) == weights(straight)
    assert logged_steps(clone) == logged_steps(straight)


def test_a_job_that_runs_out_of_memory_is_tried_again_with_more(slurm, straight, finished, tmp_path):
    clone = copied_to_cluster(finished, tmp_path / "clone", STEPS, ranks=1, mem_mb="600 * 10 ** (attempt - 1)")
    before = len(slurm.jobs("train"))
    clone.snakemake(SFT, *A40)
    first, second = slurm.jobs("train")[before:]
    assert first["JobState"] in ("OUT_OF_MEMORY", "CANCELLED", "FAILED") and second["JobState"] == "COMPLETED"
    assert second["MinMemoryNode"] == "6000M"
    assert weights(clone) == weights(straight)


@pytest.fixture
def small_disk(finished, tmp_path) -> Iterator[Clone]:
    """A clone whose results lie on a disk of their own with 40 MB to spare."""
    clone = copied_to_cluster(finished, tmp_path / "clone", STEPS, ranks=1)
    results, aside = clone.root / "results", clone.root / "aside"
    results.rename(aside)
    results.mkdir()
    size = sum(path.stat().st_size for path in aside.rglob("*") if path.is_file()) + 40_000_000
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", results], check=True)
    try:
        subprocess.run(["cp", "-a", f"{aside}/.", results], check=True)
        shutil.rmtree(aside)
        yield clone
    finally:
        subprocess.run(["umount", "--lazy", results], check=True)


def fill(path: Path) -> None:
    """Leave no free byte on the disk of `path`."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(1 << 16)):
            pass


def test_a_full_disk_ends_the_stage_and_it_resumes_once_there_is_space(slurm, straight, start, small_disk):
    process = start(small_disk, SFT, *A40)
    slurm.wait(lambda: checkpoint(small_disk, 4), "a checkpoint", 300)
    fill(small_disk.root / "results/filler")
    assert process.wait(600) == 1
    out = (small_disk.root / "snakemake.out").read_text()
    full = r"results/work/train/sft/\S+: No space left on device \(.* are free there now\)"
    too_small = r"training\.train\.sft: .* need .* more in results/work/train/sft/\w+, .* are free; make space there"
    assert re.match(f"error: ({full}|{too_small})", out.splitlines()[-1]), out
    assert "Traceback" not in out
    assert not (small_disk.root / SFT).exists()
    [*checkpoints] = small_disk.root.glob("results/work/train/sft/*/checkpoint-*")
    assert checkpoints and all((folder / "whole.json").is_file() for folder in checkpoints)  # nothing half-written
    (small_disk.root / "results/filler").unlink()
    small_disk.snakemake(SFT, *A40)
    log = (small_disk.root / "results/logs/training/train/sft.log").read_text()
    assert re.search(r"sft: resumes at step (4|6|8|10|12)", log)
    assert weights(small_disk) == weights(straight)
    assert logged_steps(small_disk) == logged_steps(straight)


def test_snakemake_and_its_job_killed_together_resume(slurm, straight, finished, start, tmp_path):
    """The whole site goes down: nothing is waited for, the stage resumes."""
    clone = copied_to_cluster(finished, tmp_path / "clone", STEPS, ranks=1)
    process = start(clone, SFT, *A40)
    slurm.wait(lambda: checkpoint(clone, 4), "a checkpoint", 300)
    job = slurm.jobs("train")[-1]["JobId"]
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run(["scancel", "--signal=KILL", "--full", job], check=True)
    slurm.wait(lambda: slurm.jobs("train")[-1]["JobState"] not in ("RUNNING", "COMPLETING"), "the job to end", 60)
    done = clone.snakemake(SFT, *A40)
    assert "waiting for jobs" not in done.stderr
    assert json.loads((clone.root / SFT).with_name("summary.json").read_text())["resumed_at_step"] >= 4
    assert weights(clone) == weights(straight)
    assert logged_steps(clone) == logged_steps(straight)
