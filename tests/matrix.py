"""The table of faults: `make faults` runs the tests that are marked with one, and writes what came of each.

    @pytest.mark.fault("a checkpoint", "training")     # what is harmed, in which part

A row is a test; its name says what must hold all the same, and its parameter which fault it was.
"""

import datetime
import os
import platform
from collections import Counter, defaultdict
from pathlib import Path

import pytest

PROPERTY = "fault"


def described(item) -> tuple[str, str, str, str] | None:
    """(part, what is harmed, what must hold, the fault) of a test that is marked; None of others."""
    mark = item.get_closest_marker(PROPERTY)
    if mark is None:
        return None
    harmed, part = mark.args
    holds = item.function.__name__.removeprefix("test_").replace("_", " ")
    case = item.callspec.id if hasattr(item, "callspec") else ""
    return part, harmed, holds, case


class Matrix:
    """Notes the outcome of each marked test, those of other workers too, and writes the page at the end."""

    def __init__(self, path: Path):
        self.path, self.rows = path, {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report):
        row = dict(report.user_properties).get(PROPERTY)
        if row and (report.when == "call" or report.outcome != "passed"):
            self.rows[tuple(row)] = report.outcome

    def pytest_sessionfinish(self):
        self.path.write_text(page(self.rows), encoding="utf-8")


def page(rows: dict[tuple[str, str, str, str], str]) -> str:
    """The page: a table of parts and what was harmed in them, then each test with its faults."""
    groups = defaultdict(Counter)
    for (part, harmed, *_), outcome in rows.items():
        groups[part, harmed][outcome] += 1
    here = f"Python {platform.python_version()}, {os.cpu_count()} cores"
    lines = [
        "# Faults that were tried",
        "",
        f"Made by `make faults` on {datetime.date.today()}; {here}.",
        "",
        "| part | what was harmed | faults | held | did not | not run here |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (part, harmed), counts in sorted(groups.items()):
        numbers = (counts.total(), counts["passed"], counts["failed"], counts["skipped"])
        lines.append(f"| {part} | {harmed} | {' | '.join(map(str, numbers))} |")
    lines.append("")
    tests = defaultdict(list)
    for (part, harmed, holds, case), outcome in rows.items():
        mark = "" if outcome == "passed" else f" ({outcome})"
        tests[part, harmed, holds].append(case.replace("|", "\\|") + mark)
    for (part, harmed, holds), cases in sorted(tests.items()):
        named = "; ".join(sorted(filter(None, cases)))
        lines += [f"- {part}, {harmed}: **{holds}**" + (f": {named}" if named else "")]
    return "\n".join(lines) + "\n"
