"""Sources in shards, published and pulled by real DVC: nothing left to do afterwards, and errors of bad remotes."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests import forked
from tests.workflow.conftest import DATA
from tests.workflow.dvc.conftest import Checkout, flip

WORKFLOW = ("--profile", "local", "--configfile", "config/tiny.yaml")
DOCUMENTS = "results/corpus/filter/{}/documents.jsonl.zst"
MAKE = ("-m", "snakemake", DATA, *WORKFLOW, "--retries", "0")


def make(checkout) -> subprocess.CompletedProcess:
    return subprocess.run([forked.python(), *MAKE], cwd=checkout.folder, capture_output=True, text=True)


def refused(done) -> str:
    """The one error line of a run that failed."""
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr, done.stderr
    *_, last = done.stderr.splitlines()
    assert last.startswith("error: ") and done.stderr.count("\nerror: ") == 1, done.stderr
    return last


def equal(checkout, reference) -> bool:
    paths = [DOCUMENTS.format(name) for name in ("alpha", "beta")]
    return all((checkout / path).read_bytes() == (reference / path).read_bytes() for path in paths)


@pytest.fixture
def folder_remote(tmp_path):
    return str(tmp_path / "store"), {}


def publish(sharded, folder: Path, remote) -> Checkout:
    """A checkout that published its data; its sources are only in the remote from then on."""
    url, options = remote[:2]
    checkout = Checkout(sharded.copy(folder).root)
    checkout.git("init", "--quiet")
    checkout.dvc("remote", "add", "--quiet", "--default", "shelf", url)
    for name, value in {**options, "verify": "true"}.items():
        checkout.dvc("remote", "modify", "shelf", name, value)
    checkout.call(forked.python(), "-m", "scripts.cli", "publish", "--experiment", WORKFLOW[-1])
    table = checkout / "config/tiny.tsv"
    table.write_text(re.sub(r"path\t\S+", "path\t/not/there", table.read_text()))
    checkout.commit()
    return checkout


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["folder_remote", "ssh"])
def test_shards_are_published_and_pulled_and_a_damaged_remote_is_refused_until_it_is_repaired(
    kind, sharded, tmp_path, request
):
    checkout = publish(sharded, tmp_path / "publisher", request.getfixturevalue(kind))
    pointers = {path.name.partition("-")[0]: path for path in (checkout / "data/raw").glob("*.tar.zst.dvc")}
    assert pointers.keys() == {"alpha", "beta"}

    colleague = checkout.clone(tmp_path / "colleague")
    assert colleague.planned(DATA, *WORKFLOW) == set()
    assert equal(colleague, checkout)

    late = checkout.clone(tmp_path / "late", pull=False)
    md5 = re.search(r"md5: (\w+)", pointers["beta"].read_text())[1]
    object_path = tmp_path / "store/files/md5" / md5[:2] / md5[2:]
    flip(object_path)
    assert pointers["beta"].name in refused(make(late))
    assert list((late / "data/raw").glob("alpha*.json")) and not list((late / "data/raw").glob("beta*.json"))
    object_path.rename(tmp_path / "away")
    assert f"no remote gives its object, md5 {md5}" in refused(make(late))
    flip(tmp_path / "away")
    (tmp_path / "away").rename(object_path)
    assert make(late).returncode == 0
    assert equal(late, checkout)


@contextmanager
def stalling(port: int, most: int) -> Iterator[tuple[int, threading.Event]]:
    """A port behind which is `port`, until so many bytes came back: (it, what is set then)."""
    stalled, sockets = threading.Event(), []

    def forward(origin: socket.socket, to: socket.socket, left: float) -> None:
        with suppress(OSError):
            while data := origin.recv(4096):
                left -= len(data)
                if left < 0:
                    stalled.set()
                    return
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                client = listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", port))
                sockets.extend([client, server])
                for pair in ((client, server, float("inf")), (server, client, most)):
                    threading.Thread(target=forward, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], stalled
        listener.shutdown(socket.SHUT_RDWR)  # else `accept` goes on waiting
    for connection in sockets:
        connection.close()


@pytest.mark.soak
def test_over_ssh_a_wrong_key_is_a_one_line_error_and_after_a_killed_pull_the_next_try_pulls(sharded, tmp_path, ssh):
    checkout = publish(sharded, tmp_path / "publisher", ssh)
    late = checkout.clone(tmp_path / "late", pull=False)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "stranger")], check=True)
    late.dvc("remote", "modify", "--local", "shelf", "keyfile", str(tmp_path / "stranger"))
    line = refused(make(late))
    assert "no remote gives its object" in line and "Permission denied" in line, line
    late.dvc("remote", "modify", "--local", "--unset", "shelf", "keyfile")

    smallest = min(path.stat().st_size for path in (checkout / "data/raw").glob("*.tar.zst"))
    with stalling(int(ssh[1]["port"]), smallest) as (port, stalled):
        late.dvc("remote", "modify", "--local", "shelf", "port", str(port))
        pull = subprocess.Popen(
            [sys.executable, *MAKE], cwd=late.folder, stderr=subprocess.DEVNULL, start_new_session=True
        )
        assert stalled.wait(60) and pull.poll() is None
        os.killpg(pull.pid, signal.SIGKILL)
        pull.wait()
    assert not list((late / "data/raw").glob("*.zst"))
    line = refused(make(late))
    assert "no remote gives its object" in line and "dvc fetch: " in line, "nobody listens on that port any more"
    late.dvc("remote", "modify", "--local", "--unset", "shelf", "port")
    assert make(late).returncode == 0
    assert equal(late, checkout)
