"""Calls of scripts/sources/fetch.py: what is fetched, and what must be refused in one line."""

import http.server
import json
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.experiment.settings.sources import Fetch
from scripts.sources.fetch import fetch
from scripts.sources.tables.source import PinnedSource


def source_arguments(row):
    """The arguments of the command line that say what to fetch."""
    pinned = {key: row[key] for key in ("name", "kind", "pin")}
    return ["--source", json.dumps(pinned), "--location", row["location"]]


SETTINGS = Fetch(max_members=1000, max_member_megabytes=10, max_megabytes=100)


def get(raw, kind, location, pin, settings=SETTINGS):
    # unchecked: what the record refuses, fetching must survive too
    source = PinnedSource.model_construct(name="it", kind=kind, location=str(location), pin=pin)
    return fetch(source, settings, raw / "it.tar.zst")


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
