"""Calls of scripts/sources/fetch.py: what is fetched, and what must be refused in one line."""

import http.server
import json

import pytest

from scripts.common.cli import UserError
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
