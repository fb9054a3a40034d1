"""Ranks whose torchrun is killed end; a rank that hangs is an alert, then an error: real ranks of torchrun, on gloo."""

import json
import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
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


# two hosts: network namespaces with a cable between them
ADDRESSES = ("10.213.77.1", "10.213.77.2")
CAN_NAME_HOSTS = os.geteuid() == 0 and shutil.which("ip") is not None


@pytest.fixture
def hosts():
    """Two network namespaces with an address each; `ip netns exec NAME` runs a command there."""
    if not CAN_NAME_HOSTS:
        pytest.skip("needs root and iproute2, to lay a cable between two network namespaces")
    names = [f"stagecraft-{os.getpid()}-{number}" for number in range(2)]
    cards = [f"sc{os.getpid() % 100_000}{letter}" for letter in "ab"]

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    for name in names:
        ip("netns", "add", name)
    try:
        ip("link", "add", cards[0], "netns", names[0], "type", "veth", "peer", "name", cards[1], "netns", names[1])
        for name, card, address in zip(names, cards, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", card)
            ip("-n", name, "link", "set", card, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names, cards
    finally:
        for name in names:
            ip("netns", "delete", name)


def test_hosts_that_lose_their_network_end_with_one_line_each_and_go_on_when_it_is_back(
    origin, shards, tmp_path, hosts
):
    names, cards = hosts
    words = on_ranks(command(origin, shards, tmp_path, {**TWO, "nodes": 2, "cpu_ranks": 1}, **ENDLESS), 2)
    started = []

    def start() -> list[subprocess.Popen]:
        pair = []
        for number, (name, card) in enumerate(zip(names, cards, strict=True)):
            place = ["--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(number)]
            place += ["--master-addr", ADDRESSES[0], "--master-port", "29411"]
            line = [*words[:3], *place, *words[words.index("-m", 2) :]]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": card, "TP_SOCKET_IFNAME": card}
            errors = (tmp_path / f"errors-{len(started)}").open("w")
            inside = ["ip", "netns", "exec", name, *line]
            pair.append(subprocess.Popen(inside, stderr=errors, env=environment, start_new_session=True))
            started.append(pair[-1])
        return pair

    try:
        pair = start()
        wait_for(lambda: len(logged(tmp_path / "work")) > 25, 300)
        subprocess.run(["ip", "-n", names[1], "link", "set", cards[1], "down"], check=True)
        assert all(process.wait(timeout=300) for process in pair)
        for number in range(2):
            said = (tmp_path / f"errors-{number}").read_text()
            assert re.search(
                r"^fault: tiny: (another process did not answer|the connection to another rank)", said, re.M
            )
        subprocess.run(["ip", "-n", names[1], "link", "set", cards[1], "up"], check=True)
        reached = logged(tmp_path / "work")[-1]
        start()
        wait_for(lambda: logged(tmp_path / "work")[-1] > reached, 300)
        assert "tiny: resumes at step" in (tmp_path / "errors-2").read_text()
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
