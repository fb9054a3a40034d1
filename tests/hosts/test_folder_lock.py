"""scripts/hosts/invocation.py: a folder has one Snakemake; the lock of a dead one goes where that is certain."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.hosts import invocation
from scripts.hosts.invocation import OWNER, hold_folder, hold_results, this_owner
from tests.small_disk import small_disk  # noqa: F401

HOLD = "import time; from scripts.hosts.invocation import hold_folder; hold_folder(); print('held', flush=True); {then}"
JOB = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3)', 'scripts.a.job'])"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(invocation, "SECONDS", 0.05)
    monkeypatch.delenv(invocation.RUN, raising=False)
    return tmp_path


def another(then: str = "time.sleep(60)") -> subprocess.Popen:
    """Another process that holds this folder."""
    root = Path(__file__).parents[2]
    line = [sys.executable, "-c", HOLD.format(then=then)]
    process = subprocess.Popen(line, env={**os.environ, "PYTHONPATH": str(root)}, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_two_checkouts_with_one_results_folder_do_not_run_at_once(folder):
    """One deletes what the other reads."""
    (shared := folder / "shared").mkdir()
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "results").symlink_to(shared)
    hold = "from pathlib import Path; from scripts.hosts.invocation import hold_results; "
    hold += "import os; os.chdir('one'); hold_results(Path('results/work/run.json')); print('held', flush=True)"
    line = [sys.executable, "-c", f"{hold}; import time; time.sleep(60)"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    file = folder / "two/results/work/run.json"
    said = (
        rf"two/results: another run works on these results: process {process.pid} on \S+, started .* in {folder}/one;"
    )
    with pytest.raises(UserError, match=said):
        hold_results(file)
    process.kill()  # a dead one is taken over
    process.wait()
    hold_results(file)
    assert json.loads(file.read_text())["pid"] == os.getpid()


def left_lock() -> Path:
    """Snakemake's own lock, as a killed one leaves it."""
    lock = Path(".snakemake/locks/0.input.lock")
    lock.parent.mkdir(parents=True)
    lock.write_text("results/eval.json\n")
    return lock


def test_another_process_that_is_alive_is_named_and_its_lock_stays():
    process, lock = another(), left_lock()
    with pytest.raises(
        UserError, match=rf"another Snakemake works in this folder: process {process.pid} on \S+, started"
    ):
        hold_folder()
    assert lock.exists()
    hold_folder(locks=False)  # --nolock
    process.kill()
    process.wait()


def test_the_lock_of_a_killed_process_of_this_host_is_removed_with_one_line(capfd):
    process, lock = another(), left_lock()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    hold_folder()
    assert not lock.exists() and f"unlocked: the lock was left by process {process.pid} on " in capfd.readouterr().err
    assert json.loads(OWNER.read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("owner", [{**this_owner(), "host": "login2", "boot": "another"}, None])
def test_the_lock_of_another_host_or_of_nobody_known_stays_and_a_line_says_what_to_do(owner):
    lock = left_lock()
    if owner:
        OWNER.write_text(json.dumps(owner))
    owner_text = "process .* on login2" if owner else "a Snakemake that did not say which"
    with pytest.raises(UserError, match=f"locked by {owner_text}.*if that is no longer running: snakemake --unlock"):
        hold_folder()
    assert lock.exists()


@pytest.mark.slow
def test_scripts_that_a_killed_process_left_running_are_waited_for(capfd):
    process = another(f"{JOB}; time.sleep(60)")
    while not (jobs := invocation.jobs_of(invocation.run_of(json.loads(OWNER.read_text())))):
        pass
    process.kill()
    process.wait()
    hold_folder()
    [job] = jobs
    assert (
        f"waiting for jobs of an earlier run: {job} (scripts.a.job); to end them: kill {job}" in capfd.readouterr().err
    )
    assert not Path(f"/proc/{job}/stat").exists() or " Z " in Path(f"/proc/{job}/stat").read_text()


def test_a_job_that_has_no_environment_any_longer_is_waited_for_until_it_has_ended(monkeypatch):
    """As Linux shows a process that is ending: what it was started with goes first, its open files later."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"]) as job:
        looks = [{job.pid: "scripts.a.job"}, {}]
        monkeypatch.setattr(invocation, "jobs_of", lambda run: looks.pop(0))
        invocation.wait_for_jobs("a run")
        assert " Z " in Path(f"/proc/{job.pid}/stat").read_text()


def test_a_full_or_read_only_snakemake_folder_is_a_one_line_error(small_disk, monkeypatch):  # noqa: F811
    monkeypatch.chdir(small_disk.path)
    Path("filler").write_bytes(bytes(1 << 19))
    with pytest.raises(
        UserError, match=r"^\.snakemake: No space left on device \(.* of 1\.0 MiB are free there now\)$"
    ):
        hold_folder()
    small_disk.remount("size=4m")
    small_disk.remount("ro")
    with pytest.raises(UserError, match="Read-only file system"):
        hold_folder()
    small_disk.remount("rw")
    hold_folder()
    assert json.loads(OWNER.read_text())["pid"] == os.getpid()
