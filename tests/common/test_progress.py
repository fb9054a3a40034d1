"""scripts/common/progress.py: what a long loop writes to the log."""

import logging
from types import SimpleNamespace

from scripts.common import progress
from scripts.common.progress import Progress


def test_lines_say_how_many_are_done_at_which_rate_and_how_long_the_rest_takes(monkeypatch, caplog):
    clock = {"now": 100.0}
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: clock["now"]))
    with caplog.at_level(logging.INFO):
        counter = Progress("filter click", "files", 3000, every=3)
        clock["now"] = 101.0  # too soon for a line
        counter.add(500)
        clock["now"] = 104.0
        counter.add(500)
        clock["now"] = 110.0
        counter.end()
    assert caplog.messages == ["filter click: 1,000/3,000 files, 250/s, ETA 8 s", "filter click: 1,000 files in 10.0 s"]


def test_a_slow_rate_is_not_0():
    counter = Progress("completion", "texts", 4)
    counter.start -= 8
    counter.done = 2
    assert counter.line() == "completion: 2/4 texts, 4.0 s each, ETA 8 s"
