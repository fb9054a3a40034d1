"""Tars and folders to read, hostile ones among them; pip and git kept from this machine's own configuration."""

import http.server
import io
import os
import tarfile
import threading
from functools import partial
from pathlib import Path

import pytest
import zstandard

from scripts.sources.providers import git, package_index
from tests.sources.fetching import Quiet

FILES = {"src/main.py": b"print('hi')\n" * 40, "src/b.c": b"int x;\n", "README": b"", "a b/é.rs": b"fn"}


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "", **more) -> tuple:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname, info.mtime, info.uid = len(content), kind, target, 1234567, 1000
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def make_tar(entries: list, mode: str = "w", form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of (TarInfo, content) pairs, or of {name: content}."""
    if isinstance(entries, dict):
        entries = [entry(name, content) for name, content in entries.items()]
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=form, encoding="utf-8", errors="surrogateescape") as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def unpacked(archive: Path) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(archive.read_bytes())).read()


def contents(archive: Path) -> dict:
    """{name: content, or the target of a link} as Python's tarfile reads the archive."""
    with tarfile.open(fileobj=io.BytesIO(unpacked(archive))) as tar:
        return {m.name: m.linkname if m.issym() else tar.extractfile(m).read() for m in tar}


def write_tree(root: Path, files: dict) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


class Tools:
    FILES = FILES
    entry, make_tar, unpacked = staticmethod(entry), staticmethod(make_tar), staticmethod(unpacked)
    contents, write_tree = staticmethod(contents), staticmethod(write_tree)


@pytest.fixture(scope="session")
def tools():
    return Tools


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in [name for name in os.environ if name.startswith(("PIP_", "GIT_"))]:
        monkeypatch.delenv(name)
    person = {"NAME": "Somebody", "EMAIL": "somebody@example.org", "DATE": "2024-01-01T00:00:00Z"}
    for key, value in person.items():
        monkeypatch.setenv(f"GIT_AUTHOR_{key}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{key}", value)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(package_index, "RETRY_PAUSES", (0, 0))
    monkeypatch.setattr(git, "RETRY_PAUSES", (0, 0))


@pytest.fixture
def raw(tmp_path):
    return tmp_path / "data" / "raw"


@pytest.fixture
def served(tmp_path):
    """Serve a folder on loopback: served(folder, handler) returns its server; `server.url` is its address."""
    servers = []

    def start(folder, handler=Quiet):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
        server.half, server.over = threading.Event(), threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.over.set()
        server.shutdown()
        server.server_close()
