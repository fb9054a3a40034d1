"""The table of faults: `make faults` runs the tests that are marked with one, and counts what came of them.

@pytest.mark.fault("a checkpoint", "training")     # what is harmed, in which part
"""

import datetime
import os
import platform
from collections import Counter, defaultdict
from pathlib import Path

import pytest

PROPERTY = "fault"


def described(item) -> tuple[str, str] | None:
    """(part, what is harmed) of a test that is marked; None of others."""
    mark = item.get_closest_marker(PROPERTY)
    return mark and (mark.args[1], mark.args[0])


class Matrix:
    """Counts the outcome of each marked test, those of other workers too, and writes the page at the end."""

    def __init__(self, path: Path):
        self.path, self.counts = path, defaultdict(Counter)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        row = dict(report.user_properties).get(PROPERTY)
        if row and (report.when == "call" or report.outcome != "passed"):
            self.counts[tuple(row)][report.outcome] += 1

    def pytest_sessionfinish(self):
        here = f"Python {platform.python_version()}, {os.cpu_count()} cores"
        lines = [
            "# Faults that were tried",
            "",
            f"Made by `make faults` on {datetime.date.today()}; {here}. Each is a test; `pytest -m fault` names them.",
            "",
            "| part | what was harmed | faults | held | did not | not run here |",
            "|---|---|---:|---:|---:|---:|",
        ]
        for (part, harmed), counts in sorted(self.counts.items()):
            numbers = (counts.total(), counts["passed"], counts["failed"], counts["skipped"])
            lines.append(f"| {part} | {harmed} | {' | '.join(map(str, numbers))} |")
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
