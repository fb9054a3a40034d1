"""Fetching source distributions from an index on loopback or a folder: pins, limits, kills."""

import hashlib
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from scripts.experiment.layout import raw_name
from scripts.sources.archives.members import LIMITS
from tests.sources.fetching import ArchiveHandler, fetch_command, get, refused, started_in

ROOT = Path(__file__).parents[2]


NOBODY = "http://127.0.0.1:9/simple"  # the discard port: refuses connections


class Stalling(ArchiveHandler):
    """Sends half of an archive, says so by an event, then waits to be told to end."""

    def archive(self, data):
        self.wfile.write(data[: len(data) // 2])
        self.wfile.flush()
        self.server.half.set()
        self.server.over.wait()


@pytest.fixture
def sdist(tmp_path, tools):
    """(a simple index with my-thing 1.0 as sdist and wheel, the sdist's sha256); its setup.py leaves a mark if run."""
    mark = f"open({str(tmp_path / 'ran')!r}, 'w')\n".encode()
    data = tools.make_tar({"my_thing-1.0/setup.py": mark, "my_thing-1.0/src/a.c": b"int x;\n" * 5000}, "w:gz")
    pages = tmp_path / "index" / "simple"
    files = {"my_thing-1.0.tar.gz": data, "my_thing-1.0-py3-none-any.whl": b"no", "my_thing-2.0.tar.gz": b"no"}
    tools.write_tree(pages / "my-thing", files)
    page = "".join(f'<a href="{name}#sha256={hashlib.sha256(data).hexdigest()}">x</a>' for name, data in files.items())
    (pages / "my-thing" / "index.html").write_text(f"<!DOCTYPE html><html><body>{page}</body></html>")
    return tmp_path / "index", hashlib.sha256(data).hexdigest()


def right(raw, tools, tmp_path, name="it"):
    assert set(tools.contents(raw / f"{name}.tar.zst")) == {"setup.py", "src/a.c"}
    assert sorted(path.name for path in raw.iterdir()) == [f"{name}.json", f"{name}.tar.zst"]
    assert not (tmp_path / "ran").exists()


def test_sdist_comes_from_the_index_that_pip_uses_and_no_code_is_run(sdist, served, raw, tools, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", f"{served(sdist[0]).url}/simple")
    get(raw, "sdist", "my-thing==1.0", sdist[1])
    right(raw, tools, tmp_path)


@pytest.mark.slow
def test_project_version_or_sdist_that_is_not_there_is_refused(sdist, served, raw, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", f"{served(sdist[0]).url}/simple")
    refused(raw, "other==1.0: no source distribution as a tar; searched: http", "sdist", "other==1.0", sdist[1])
    refused(raw, "my-thing==3.0: no source distribution", "sdist", "my-thing==3.0", sdist[1])
    shutil.move(sdist[0] / "simple/my-thing/index.html", sdist[0] / "simple/my-thing/old.html")
    for wheel in (sdist[0] / "simple/my-thing").glob("*.tar.gz"):
        wheel.unlink()
    refused(raw, "my-thing==1.0: no source distribution", "sdist", "my-thing==1.0", sdist[1])


def test_a_missing_network_is_a_one_line_error(sdist, raw, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", NOBODY)
    refused(raw, f"these could not be reached: {NOBODY} .*refused", "sdist", "my-thing==1.0", sdist[1])


def test_download_stops_where_it_exceeds_the_limit(sdist, served, raw, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", f"{served(sdist[0]).url}/simple")
    small = LIMITS._replace(bytes=50)
    refused(raw, "larger than the 5e-05 MB that a file may have", "sdist", "my-thing==1.0", sdist[1], small)


@pytest.mark.slow
def test_hostile_sdist_is_refused_by_member(tmp_path, raw, tools, monkeypatch):
    data = tools.make_tar({"evil-1.0/a": b"1", "evil-1.0/../../b": b"2"}, "w:gz")
    tools.write_tree(tmp_path / "links", {"evil-1.0.tar.gz": data})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "links"))
    refused(raw, r"'evil-1.0/../../b': `\.\.`", "sdist", "evil==1.0", hashlib.sha256(data).hexdigest())


@pytest.mark.slow
def test_fetch_killed_in_the_download_leaves_nothing_declared_and_the_next_cleans_up(
    sdist, served, raw, tools, tmp_path, monkeypatch
):
    server = served(sdist[0], Stalling)
    monkeypatch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
    source = {"name": "it", "kind": "sdist", "location": "my-thing==1.0", "pin": sdist[1]}
    process = subprocess.Popen(fetch_command(source), **started_in(tmp_path), stderr=subprocess.DEVNULL)
    assert server.half.wait(60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    raw, name = tmp_path / "data/raw", raw_name("it", sdist[1])
    left = [path.name for path in raw.iterdir()]
    assert left and all(file.startswith(".") for file in left)
    monkeypatch.setenv("PIP_INDEX_URL", f"file://{sdist[0]}/simple")
    get(raw, "sdist", "my-thing==1.0", sdist[1], name=name)
    right(raw, tools, tmp_path, name)
