"""Servers that break off, fall silent or send a byte at a time, and jobs that are killed while they wait for one."""

import hashlib
import http.server
import os
import signal
import socket
import subprocess
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.sources.archives.members import LIMITS
from scripts.sources.fetch import fetch
from scripts.sources.providers import git_process, package_index
from scripts.sources.tables.source import PinnedSource
from tests.sources.fetching import ArchiveHandler, fetch_command, started_in

pytestmark = pytest.mark.slow  # waits for time limits

ROOT = Path(__file__).parents[2]


COMMIT = "0" * 40


class BreaksOffOnce(ArchiveHandler):
    seen = 0

    def archive(self, data):
        BreaksOffOnce.seen += 1
        self.wfile.write(data[: len(data) // 2] if BreaksOffOnce.seen == 1 else data)


class Drips(ArchiveHandler):
    def archive(self, data):
        for byte in data:
            self.wfile.write(bytes([byte]))
            time.sleep(0.05)
            if self.server.over.is_set():
                return


@pytest.fixture
def served():
    """served(folder, handler) starts a server on loopback and returns its URL."""
    servers = []

    def start(folder, handler):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
        server.over = threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.over.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def listener():
    """A server that accepts connections and then sends `drip`, if any, a byte a time. (port, set_drip)"""
    server, over, drip = socket.create_server(("127.0.0.1", 0)), threading.Event(), []

    def serve(connection):
        with connection:
            connection.recv(1 << 16)
            for byte in drip[0] if drip else b"":
                if over.wait(0.2):
                    return
                try:
                    connection.sendall(bytes([byte]))
                except OSError:
                    return
            over.wait()

    def accept():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield server.getsockname()[1], drip.append
    over.set()
    server.close()


@pytest.fixture
def sdist(tmp_path, tools):
    """(a simple index with my-thing 1.0, the sha256 of its sdist)"""
    data = tools.make_tar({"my_thing-1.0/a.c": os.urandom(20_000)}, "w:gz")
    pages = tools.write_tree(tmp_path / "index/simple/my-thing", {"my_thing-1.0.tar.gz": data})
    (pages / "index.html").write_text('<!DOCTYPE html><html><body><a href="my_thing-1.0.tar.gz">x</a></body></html>')
    return tmp_path / "index", hashlib.sha256(data).hexdigest()


def source(kind, location, pin):
    return PinnedSource(name="it", kind=kind, location=location, pin=pin)


def test_download_that_broke_off_starts_again(sdist, served, tmp_path, monkeypatch):
    monkeypatch.setattr(package_index, "RETRY_PAUSES", (0, 0))
    monkeypatch.setenv("PIP_INDEX_URL", f"{served(sdist[0], BreaksOffOnce)}/simple")
    facts = fetch(source("sdist", "my-thing==1.0", sdist[1]), LIMITS, tmp_path / "raw/it.tar.zst")
    assert facts["bytes"] == 20_000 and BreaksOffOnce.seen == 2


def test_download_a_byte_at_a_time_ends_at_the_time_limit(sdist, served, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", f"{served(sdist[0], Drips)}/simple")
    line = r"my-thing==1.0: not downloaded after 0.0333333 min"
    with pytest.raises(UserError, match=line):
        fetch(source("sdist", "my-thing==1.0", sdist[1]), LIMITS._replace(seconds=2), tmp_path / "raw/it.tar.zst")
    assert list((tmp_path / "raw").iterdir()) == []


def processes(text: str) -> list[str]:
    """The command lines of the running processes that hold `text`."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            lines.append(line)
    return lines


def gone(text: str) -> bool:
    """Whether no process holds `text` in its command line, now or within five seconds."""
    deadline = time.monotonic() + 5
    while processes(text) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not processes(text)


@pytest.mark.parametrize("drip", [b"", b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement"])
def test_git_server_that_is_silent_or_drips_is_given_up(drip, listener, tmp_path, monkeypatch):
    monkeypatch.setattr(git_process, "LOW_SPEED_SECONDS", 1)
    port, set_drip = listener
    set_drip(drip)
    start = time.monotonic()
    with pytest.raises(UserError, match=f"cannot read http://127.0.0.1:{port}/r: .*Operation too slow"):
        fetch(source("git", f"http://127.0.0.1:{port}/r", COMMIT), LIMITS, tmp_path / "raw/it.tar.zst")
    assert time.monotonic() - start < 20
    assert gone(f"127.0.0.1:{port}")


@pytest.mark.parametrize("protocol", ["git", "http"])
def test_git_fetch_ends_at_the_time_limit_with_its_children(protocol, listener, tmp_path):
    location = f"{protocol}://127.0.0.1:{listener[0]}/r"
    with pytest.raises(UserError, match=f"cannot read {location}: not fetched after 0.0166667 min"):
        fetch(source("git", location, COMMIT), LIMITS._replace(seconds=1), tmp_path / "raw/it.tar.zst")
    assert gone(location)
    assert list((tmp_path / "raw").iterdir()) == []


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_git_and_its_children_die_with_a_killed_job(way, listener, tmp_path):
    location = f"http://127.0.0.1:{listener[0]}/r"
    row = {"name": "it", "kind": "git", "location": location, "pin": COMMIT}
    process = subprocess.Popen(fetch_command(row), **started_in(tmp_path), stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not any("remote-http" in command for command in processes(location)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert any("remote-http" in command for command in processes(location))
    process.send_signal(way)
    process.wait()
    assert gone(location)
