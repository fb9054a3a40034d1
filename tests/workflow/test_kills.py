"""`kill -9` at random moments of a real workflow, also during a save: it ends with the weights of an undisturbed run.

    KILLS=20 SOAK=benchmarks/soak.md pytest -s tests/workflow/test_kills.py      # as `make soak` does

KILLS is the number of kills (2 in CI), SEED decides their moments, SOAK names a file for the table of results. With
SOAK all programs are started; without it they are forks (tests/forked.py), which a `kill -9` ends as surely.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from tests.workflow.conftest import Clone, processes_of

pytestmark = pytest.mark.fault("a whole workflow, by signals", "workflow")

TARGET = "results/training/train/sft/manifest.json"
STAGES = ("pretrain", "sft")
# small steps: much of the time goes into saves
STAGE = {"steps": 16, "eval_steps": 4, "global_batch_size": 2}


def manifest(clone: Clone, stage: str) -> Path:
    return clone.root / f"results/training/train/{stage}/manifest.json"


def outcome(clone: Clone) -> dict:
    """Per stage the hash of the weights and the losses of all steps."""
    weights_and_losses = {}
    for stage in STAGES:
        lines = map(json.loads, manifest(clone, stage).with_name("metrics.jsonl").read_text().splitlines())
        weights = json.loads(manifest(clone, stage).read_text())["files"]["model.safetensors"]["sha256"]
        weights_and_losses[stage] = weights, [(line["step"], line.get("loss"), line.get("eval_loss")) for line in lines]
    return weights_and_losses


def checkpoints(clone: Clone, stage: str) -> list[Path]:
    """A stage's checkpoint folders, whole or not, by step."""
    folders = clone.root.glob(f"results/work/train/{stage}/*/checkpoint-*")
    return sorted(folders, key=lambda folder: int(folder.name.partition("-")[2]))


def is_complete(folder: Path) -> bool:
    return (folder / "whole.json").exists()


def assert_readable(folder: Path) -> None:
    """An independent look: every part of a checkpoint that calls itself whole can be read."""
    load_file(folder / "model.safetensors")
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        torch.load(folder / name, weights_only=False)
    json.loads((folder / "trainer_state.json").read_text())


def running(clone: Clone) -> str:
    """The stage that is not finished."""
    return next((stage for stage in STAGES if not manifest(clone, stage).exists()), STAGES[-1])


def expected_starts(clone: Clone) -> dict[str, int]:
    """The step that each stage must begin at: its newest whole checkpoint; 0 where there is none."""
    steps = {}
    for stage in STAGES:
        kept = [folder for folder in checkpoints(clone, stage) if is_complete(folder)]
        for folder in kept:
            assert_readable(folder)
        steps[stage] = int(kept[-1].name.partition("-")[2]) if kept else 0
    return steps


def assert_started(output: str, expected: dict[str, int]) -> None:
    for stage, step in re.findall(r" (\w+): (?:starts|resumes at step (\d+)), work in", output):
        assert int(step or 0) == expected[stage], f"{stage} began at {step or 0}, its newest whole is {expected[stage]}"
    assert "rule pack" not in output, "what was finished is not made again"


def run_and_kill(clone: Clone, due) -> tuple[bool, str]:
    """Start the workflow and, once `due(seconds since the start)`, kill all of its processes.

    Returns:
        whether it was killed before it ended; what it said.
    """
    log, line = clone.root / "kill.log", clone.command(TARGET)
    with log.open("w") as output:
        process = subprocess.Popen(line, cwd=clone.root, stdout=output, stderr=output, start_new_session=True)
    began = looked = time.monotonic()
    family = []
    while process.poll() is None and not due(time.monotonic() - began):
        if time.monotonic() - looked > 0.3:  # ahead of the kill: to look then would let a save end
            looked, family = time.monotonic(), sorted(processes_of(clone), key=psutil.Process.create_time, reverse=True)
        time.sleep(0.001)
    if alive := process.poll() is None:
        for member in () if clone.real else family:  # forks are not in the process group
            with suppress(psutil.NoSuchProcess):
                member.kill()
        os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == (-signal.SIGKILL if alive else 0), log.read_text()
    assert not psutil.wait_procs(processes_of(clone), timeout=30)[1], "a process outlived the kill"
    return alive, log.read_text()


def saving(clone: Clone, saves: int, files: int):
    """True in the next save but `saves` of a start, once that checkpoint holds `files` files and is not whole."""
    old = {folder for stage in STAGES for folder in checkpoints(clone, stage)}
    seen = set()

    def due(_) -> bool:
        new = [folder for stage in STAGES for folder in checkpoints(clone, stage) if folder not in old]
        seen.update(new)
        # the newest: an older one loses its marker too, when it is removed
        return len(seen) > saves and not is_complete(new[-1]) and len(list(new[-1].iterdir())) >= files

    return due


def progress_of(clone: Clone) -> str:
    """What the killed run was at, from what it left."""
    stage = running(clone)
    left = checkpoints(clone, stage)
    if not left:
        return f"{stage}, no checkpoint yet"
    if not is_complete(left[-1]):
        return f"{stage}, {left[-1].name} half-written ({len(list(left[-1].iterdir()))} files)"
    return f"{stage}, after {left[-1].name}"


def start_over(clone: Clone) -> None:
    """Both stages are to be trained from the start."""
    for stage in STAGES:
        manifest(clone, stage).unlink()
        shutil.rmtree(clone.root / "results/work/train" / stage)


def table(rows: list[tuple], seed: int, straight: float, seconds: float) -> str:
    """benchmarks/soak.md: what was run, where, and what became of each kill."""
    packages = ("torch", "transformers", "snakemake")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    processor = next((x for x in Path("/proc/cpuinfo").read_text().splitlines() if x.startswith("model name")), "")
    half = sum("half-written" in at for *_, at in rows)
    lines = [
        "# Soak: a workflow that is killed many times",
        "",
        f"Made by `make soak` on {datetime.date.today()}; seed of the moments {seed}.",
        "",
        f"- Python {platform.python_version()}, {versions}; {os.cpu_count()} cores, {processor.partition(': ')[2]}",
        f"- The tests' tiny experiment: two stages of {STAGE['steps']} steps, a checkpoint after each; `kill -9` to",
        f"  the whole process group. The straight run took {straight:.0f} s, this one with its kills {seconds:.0f} s.",
        f"- **Result: {len(rows)} kills, {half} of which left a half-written checkpoint. Weights and losses of both",
        "  stages equal the straight run's bit for bit.** Each start resumed from the newest complete checkpoint, and",
        "  every checkpoint that was marked complete could be read.",
        "",
        "| kill | moment | stage and checkpoint at the kill |",
        "|---|---|---|",
        *(f"| {number} | {moment} | {at} |" for number, moment, at in rows),
        "",
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "how",
    [
        "Ctrl-C in the terminal",
        pytest.param("the terminal is closed", marks=pytest.mark.soak),
        pytest.param("SIGTERM to Snakemake", marks=pytest.mark.soak),
        pytest.param("SIGTERM to all", marks=pytest.mark.soak),
    ],
)
def test_a_run_that_is_stopped_saves_says_so_and_goes_on_there(finished, tmp_path, start, how):
    clone = finished.copy(tmp_path / "clone")
    clone.monitoring(log_steps=1, save_steps=1000)
    clone.experiment(lambda config: config["training"]["train"]["sft"].update(steps=5000))
    process = start(clone, TARGET)
    log = clone.root / "results/logs/training/train/sft.log"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (log.exists() and "step 3/5000" in log.read_text()):
        time.sleep(0.05)
    if how == "Ctrl-C in the terminal":
        for _ in range(3):  # impatient
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.15)
    elif how == "the terminal is closed":
        os.killpg(process.pid, signal.SIGHUP)
    elif how == "SIGTERM to Snakemake":
        process.terminate()
    else:
        os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(timeout=60) == 1
    lines = (clone.root / "snakemake.out").read_text().splitlines()
    stopped = re.fullmatch(
        r"fault: sft: stopped by SIG(?:INT|TERM|HUP) at step (\d+) of 5000, checkpoint saved; .*",
        lines[-2] or lines[-3],
    )
    assert stopped and lines[-1] == "stopped by a signal; run the same command again to go on", lines[-5:]
    assert not any(line.startswith("trying again") for line in lines)
    assert [folder.name for folder in checkpoints(clone, "sft")] == [f"checkpoint-{stopped[1]}"]


@pytest.mark.timeout(3600)  # of `make soak`, with its 20 kills
def test_a_workflow_killed_at_random_moments_ends_with_the_weights_of_an_uninterrupted_run(
    finished, tmp_path, monkeypatch
):
    monkeypatch.setattr(Clone, "real", "SOAK" in os.environ)
    kills, seed = int(os.environ.get("KILLS", 2)), int(os.environ.get("SEED", 0))
    print(f"{kills} kills, seed {seed}")
    draw = random.Random(seed)
    clone = finished.copy(tmp_path / "clone")
    clone.monitoring(log_steps=1, save_steps=1)

    def longer(config):
        for stage in STAGES:
            config["training"]["train"][stage] |= STAGE

    clone.experiment(longer)
    start_over(clone)
    straight = clone.copy(tmp_path / "straight")
    began = time.monotonic()
    straight.snakemake(TARGET)
    duration = time.monotonic() - began

    began, rows = time.monotonic(), []
    while len(rows) < kills or not any("half-written" in at for *_, at in rows):
        expected = expected_starts(clone)
        if len(rows) % 2 == 0:
            saves, files = draw.randrange(8), draw.randrange(5)
            moment, due = f"save {saves + 1} of a start, {files} files written", saving(clone, saves, files)
        else:
            seconds = draw.uniform(0, duration)
            moment, due = f"{seconds:.1f} s after a start", lambda passed, seconds=seconds: passed > seconds
        alive, output = run_and_kill(clone, due)
        assert_started(output, expected)
        if alive:
            rows.append((len(rows) + 1, moment, progress_of(clone)))
            print(*rows[-1], sep="; ", flush=True)
        else:  # it was through before its moment came
            assert outcome(clone) == outcome(straight)
            start_over(clone)
    expected = expected_starts(clone)
    done = clone.snakemake(TARGET)
    assert_started(done.stdout + done.stderr, expected)
    assert outcome(clone) == outcome(straight)
    if "SOAK" in os.environ:
        Path(os.environ["SOAK"]).write_text(table(rows, seed, duration, time.monotonic() - began))
