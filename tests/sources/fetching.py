"""Calls of scripts/sources/fetch.py: what is fetched, and what must be refused in one line."""

import http.server
import json
import os
import sys
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.sources.archives.members import LIMITS
from scripts.sources.fetch import fetch
from scripts.sources.tables.source import PinnedSource

ROOT = Path(__file__).parents[2]
SETTINGS = LIMITS._replace(members=1000, member_bytes=10**7, bytes=10**8)


def fetch_command(row, code=("-m", "scripts.sources.fetch")):
    """The command that fetches a source into data/raw of the folder in which it is started."""
    pinned = json.dumps({key: row[key] for key in ("name", "kind", "pin")})
    options = [f"--sources={pinned}", f"--locations={row['location']}"]
    return [sys.executable, *code, *options]


def started_in(folder):
    """How a process is started in another folder than the checkout."""
    return {"cwd": folder, "env": os.environ | {"PYTHONPATH": str(ROOT)}}


def get(raw, kind, location, pin, settings=SETTINGS, name="it"):
    # unchecked: what the record refuses, fetching must survive too
    source = PinnedSource.model_construct(name="it", kind=kind, location=str(location), pin=pin)
    return fetch(source, settings, raw / f"{name}.tar.zst")


def refused(raw, match, kind, location, pin, settings=SETTINGS):
    with pytest.raises(UserError, match=match) as caught:
        get(raw, kind, location, pin, settings)
    assert str(caught.value).startswith("source it: ") and "\n" not in str(caught.value)
    assert list(raw.iterdir()) == []


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class ArchiveHandler(Quiet):
    """Serves the index; what becomes of the archive is each subclass's matter."""

    def do_GET(self):
        if not self.path.endswith(".tar.gz"):
            return super().do_GET()
        data = Path(self.translate_path(self.path)).read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.archive(data)
        return None
