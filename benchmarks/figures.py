"""Figures of the docs: each comes from a file docs/figures/NAME.json, which the run that measured it writes.

    python -m benchmarks.figures      # writes the stored figures into README.md and docs/*.md anew, as `make docs` does

A page marks a figure as `<!-- figure NAME.KEY -->9.2 times<!-- end -->`, and a table as `<!-- table NAME.KEY -->`, its
rows, and `<!-- end -->`.
"""

import json
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/figures"
MARK = re.compile(r"<!-- (figure|table) ([\w-]+)\.(\w+) -->(.*?)<!-- end -->", re.DOTALL)

Table = list[list[str | float]]  # the first row is the head


@dataclass
class Value:
    """A measured value; `spread` says in words how far the runs were apart, or that there was one."""

    value: float
    unit: str = ""  # with its leading space, as " MB/s" or "%"
    spread: str = "one run"

    def __str__(self) -> str:
        return f"{self.value:,}{self.unit}"


def store(name: str, values: dict[str, Value], conditions: str, tables: dict[str, Table] | None = None) -> None:
    """Write the figures and tables of a run that ends now to docs/figures/NAME.json."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    record = {
        "command": " ".join(["python", "-m", f"benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:]]),
        "commit": commit + ("" if changed.stdout == "" else " with changes"),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "date": datetime.now(UTC).date().isoformat(),
        "recorded": "by the run",
        "conditions": conditions,
        "values": {key: asdict(value) for key, value in values.items()},
    }
    if tables:
        record["tables"] = tables
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n")


def figure(name: str, key: str) -> str:
    """A stored figure as text."""
    return str(Value(**json.loads((FOLDER / f"{name}.json").read_text())["values"][key]))


def table(name: str, key: str) -> str:
    """A stored table in Markdown; columns of numbers are right-aligned."""
    head, *rows = json.loads((FOLDER / f"{name}.json").read_text())["tables"][key]
    numeric = [all(isinstance(row[column], int | float) for row in rows) for column in range(len(head))]
    lines = [head, ["---:" if right else "---" for right in numeric], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("README*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks/README.md"]


def with_figures(text: str) -> str:
    """The text of a page with all figures as they are stored."""

    def stored(mark: re.Match) -> str:
        kind, name, key, _ = mark.groups()
        content = figure(name, key) if kind == "figure" else f"\n{table(name, key)}\n"
        return f"<!-- {kind} {name}.{key} -->{content}<!-- end -->"

    return MARK.sub(stored, text)


if __name__ == "__main__":
    for page in pages():
        page.write_text(with_figures(page.read_text()))
