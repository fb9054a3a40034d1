"""scripts/hosts/gpus.py: a folder for all users, and what in it is refused."""

import os
import signal
import subprocess
import sys

import pytest

from scripts.common.errors import UserError
from scripts.hosts import gpus
from scripts.hosts.gpus import GATE
from tests.hosts.leasing import A40, CARDS, Host

HOLD_GATE = """
import fcntl, sys, time
with open(sys.argv[1], "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.write("process 7 in /home/her")
    file.flush()
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_leases_are_every_users_whatever_the_umask(tmp_path):
    host = Host(tmp_path, [A40])
    done = subprocess.run(["sh", "-c", 'umask 077; exec "$@"', "sh", *host.words(1)], env=host.env, check=False)
    assert done.returncode == 0
    assert host.leases.stat().st_mode & 0o7777 == 0o1777
    files = list(host.leases.iterdir())
    assert len(files) == 2 and all(file.stat().st_mode & 0o777 == 0o666 for file in files)


def test_a_stopped_process_that_holds_the_lock_on_the_leases_is_named_after_the_time_limit(tmp_path, monkeypatch):
    host = Host(tmp_path, [A40])
    assert host.run(1).returncode == 0
    holder = subprocess.Popen([sys.executable, "-c", HOLD_GATE, host.leases / GATE], stdout=subprocess.PIPE)
    holder.stdout.readline()
    holder.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(gpus, "GATE_LIMIT", 0.3)
    with pytest.raises(UserError, match=r"process 7 in /home/her\S* has held the lock on the leases for"):
        gpus.wait(host.leases, [[CARDS[0]]], 1)
    holder.kill()
    holder.wait()
    with gpus.opened_folder(host.leases) as folder, gpus.one_at_a_time(folder):
        pass  # free again


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "second name"])
def test_a_lease_that_is_not_a_plain_file_is_refused_and_not_written(tmp_path, kind):
    host, victim = Host(tmp_path, [A40]), tmp_path / "victim"
    assert host.run(1).returncode == 0
    lease = next(file for file in host.leases.iterdir() if file.name != GATE)
    lease.unlink()
    victim.write_text("dear")
    make = {"link": lease.symlink_to, "fifo": lambda _: os.mkfifo(lease), "folder": lambda _: lease.mkdir()}
    make.get(kind, lease.hardlink_to)(victim)
    done = host.run(1)
    assert done.returncode == 1 and f"error: {lease.name}: not a plain file in the lease folder" in done.stderr
    assert victim.read_text() == "dear"


@pytest.mark.slow
def test_a_link_or_another_users_own_folder_is_no_lease_folder(tmp_path):
    host, elsewhere = Host(tmp_path, [A40]), tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o777)
    host.leases.symlink_to(elsewhere)
    done = host.run(1)
    assert done.returncode == 1 and f"error: {host.leases}: not a folder, or a link" in done.stderr
    assert not list(elsewhere.iterdir())
    host.leases.unlink()
    host.leases.mkdir()
    if os.getuid() == 0:
        for mode, code in ((0o755, 1), (0o777, 1), (0o1777, 0)):
            host.leases.chmod(mode)
            os.chown(host.leases, 12345, 12345)
            done = host.run(1)
            assert done.returncode == code
            assert code == 0 or "owned by user 12345 and not shared" in done.stderr
