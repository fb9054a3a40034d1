"""Ranks whose torchrun is killed end; a rank that hangs is an alert, then an error: real ranks of torchrun, on gloo."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from scripts.training.model.kernels import architecture
from tests.training.conftest import MACHINE
from tests.training.engine.test_run_lock import ENDLESS, logged, wait_for
from tests.training.test_train import command, on_ranks

pytestmark = [pytest.mark.soak, pytest.mark.fault("a process that trains", "training")]

TWO = {**MACHINE, "micro_batch_size": 1, "cpu_ranks": 2, "collective_timeout": 15}


@pytest.fixture
def ranks(origin, shards, tmp_path):
    """Starts two ranks in the middle of training: (torchrun, [rank 0, rank 1])."""
    started = []

    def start(by_launch: bool) -> tuple[subprocess.Popen, list[psutil.Process]]:
        words = command(origin, shards, tmp_path, TWO, **ENDLESS)
        words = words if by_launch else on_ranks(words, 2)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PET_SHUTDOWN_TIMEOUT": "2"}
        architecture(origin)  # is kept: on a busy machine it takes longer than the timeout
        torchrun = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)

        def in_the_middle() -> bool:
            assert torchrun.poll() is None, torchrun.stderr.read()
            return len(logged(tmp_path / "work")) > 20

        wait_for(in_the_middle, 300)
        children = psutil.Process(torchrun.pid).children()
        started.extend(children)
        return torchrun, sorted(children, key=lambda child: child.environ()["RANK"])

    yield start
    for process in started:
        if process.is_running():
            process.kill()


@pytest.mark.parametrize("by_launch", [True, False])
def test_ranks_end_within_seconds_of_a_kill_of_torchrun(ranks, by_launch):
    torchrun, children = ranks(by_launch)
    torchrun.send_signal(signal.SIGKILL)
    torchrun.wait()
    _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []


def test_a_stopped_rank_is_an_alert_and_after_the_timeout_one_line(ranks, tmp_path):
    torchrun, (_, second) = ranks(False)
    second.suspend()  # SIGSTOP
    [alerts] = Path(tmp_path / "work").glob("*/alerts.jsonl")

    def alert_kinds() -> list[str]:
        return [json.loads(line)["kind"] for line in alerts.read_text().splitlines()]

    wait_for(lambda: "stall" in alert_kinds(), 14)  # before the timeout ends it
    assert alert_kinds().count("stall") == 1
    _, errors = torchrun.communicate(timeout=60)
    assert torchrun.returncode != 0
    line = "fault: tiny: another process did not answer within `collective_timeout` of the machine file (15 s)"
    assert any(text.startswith(line) for text in errors.splitlines()), errors[-3000:]


def test_a_killed_rank_is_named_and_the_others_say_in_one_line_that_they_lost_it(ranks):
    torchrun, (_, second) = ranks(True)
    second.kill()
    _, errors = torchrun.communicate(timeout=60)
    error_lines = [line for line in errors.splitlines() if line.startswith("fault: ")]
    assert torchrun.returncode == 1
    assert "fault: tiny: the connection to another rank was lost: that rank or its host has ended" in error_lines
    assert any(
        re.match(r"fault: rank 1 on \S+ was killed by SIGKILL, as the kernel does ", line) for line in error_lines
    )
    assert "Traceback" not in errors
