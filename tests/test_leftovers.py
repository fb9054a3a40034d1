"""Nothing that a test starts outlives pytest, however it ends, and a run that takes too long names its tests."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.leftovers import MARK
from tests.workflow.slurm import missing

# A process that leaves its parent and its session, as daemons do, and a plain child.
LEAVING = """
import os, subprocess, sys, time

def test_that_leaves_processes_behind():
    sleep = [sys.executable, "-c", "import time; time.sleep(300)"]
    daemon = f"import subprocess; print(subprocess.Popen({sleep!r}, start_new_session=True, stdout=-3, stderr=-3).pid)"
    pid = subprocess.run([sys.executable, "-c", daemon], capture_output=True, text=True, check=True).stdout.strip()
    plain = subprocess.Popen(sleep)
    with open("pids.new", "w") as file:
        file.write(f"{pid} {plain.pid}")
    os.rename("pids.new", "pids")
    time.sleep(300)
"""
# The process that tests fork and one of its forks; the daemons of a real Slurm, a job of it and what the job leaves.
CLUSTER = """
import os, pathlib, psutil, subprocess, sys, time
from tests import forked
from tests.workflow.slurm import Slurm

def test_that_leaves_processes_behind(tmp_path):
    fork = forked.Program([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "0"])
    found = [int(fork.socket.makefile("r").readline())]
    cluster = Slurm(tmp_path)
    cluster.start()
    found += [process.pid for process in cluster.processes.values()]
    job = "setsid sleep 301 & echo $! $$ > jobs; sleep 302"
    subprocess.run(["sbatch", "--output=job.out", "--wrap", job], check=True)
    jobs = pathlib.Path("jobs")
    cluster.wait(lambda: jobs.exists() and jobs.read_text(), "the job", 20)
    found += [int(pid) for pid in jobs.read_text().split()]
    found.append(psutil.Process(found[-1]).ppid())  # Slurm's own process of the job
    pathlib.Path("pids.new").write_text(" ".join(map(str, found)))
    os.rename("pids.new", "pids")
    time.sleep(300)
"""


@pytest.fixture
def start(tmp_path):
    """Start a pytest of its own on a test file, and wait until what the test starts is there."""
    started = []

    def begin(text: str, *options: str) -> tuple[subprocess.Popen, list[int]]:
        (tmp_path / "test_it.py").write_text(text)
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest", *options, "."]
        environment = {name: value for name, value in os.environ.items() if name != MARK}
        environment["PYTHONPATH"] = str(Path.cwd())
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(words, cwd=tmp_path, env=environment, **out))
        wait_until(lambda: (tmp_path / "pids").exists())
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert len(pids) >= 2 and all(map(alive, pids))
        return started[-1], pids

    yield begin
    for process in started:
        process.kill()
        process.wait()


def wait_until(true, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not true after {seconds} seconds"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def none_alive(pids: list[int]) -> bool:
    return not any(map(alive, pids))


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_outlives_pytest_however_it_ends(start, ending):
    running, pids = start(LEAVING)
    running.send_signal(ending)
    running.communicate(timeout=60)
    wait_until(lambda: none_alive(pids))


@pytest.mark.slow
@pytest.mark.parametrize("ending", [pytest.param(signal.SIGTERM, marks=pytest.mark.soak), signal.SIGKILL])
def test_no_fork_nor_daemon_or_job_of_slurm_outlives_pytest(start, ending):
    if line := missing():
        pytest.skip(line)
    running, pids = start(CLUSTER)
    running.send_signal(ending)
    running.communicate(timeout=60)
    wait_until(lambda: none_alive(pids))


def test_a_run_beyond_its_limit_ends_and_names_the_tests_that_were_running(start):
    running, pids = start(LEAVING, "--minutes", "0.1", "-n", "1")
    shown, _ = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "error: the tests took longer than 0.1 minutes; these were running:\ntest_it.py::test_that_leaves" in shown
    wait_until(lambda: none_alive(pids))


def test_a_test_that_hangs_fails_and_shows_where(start):
    running, _ = start(LEAVING, "--timeout", "3")
    shown, _ = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "Timeout" in shown and "time.sleep(300)" in shown and "1 failed" in shown
