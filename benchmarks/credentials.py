"""How many labelled credentials the filter replaces, and on how many lines it is wrong, on Samsung's CredData.

    python -m benchmarks.credentials CREDDATA     # stores docs/figures/credentials.json

CREDDATA is a checkout of github.com/Samsung/CredData whose `data/` its `download_data.py` has filled, or a part of
that: lines of files that are not there are left out. No rule was written after these lines, but many that find
nothing there were taken out. A credential counts as found where at least half of it is replaced; a line labelled as
none counts as wrong where anything on it is replaced.
"""

import csv
import sys
from collections import Counter, defaultdict
from itertools import accumulate
from pathlib import Path

from benchmarks.figures import Value, store
from scripts.corpus.secrets.personal import personal_rules
from scripts.corpus.secrets.replace import secrets_of
from scripts.corpus.secrets.rules import Rule, secret_rules


def labelled_files(folder: Path) -> list[tuple[Path, list[dict]]]:
    """Each file that is there, and its rows of CredData's tables."""
    rows = defaultdict(list)
    for table in sorted((folder / "meta").glob("*.csv")):
        with table.open(newline="") as file:
            for row in csv.DictReader(file):
                rows[folder / row["FilePath"]].append(row)
    return [(path, of_file) for path, of_file in rows.items() if path.is_file()]


def labelled_spans(raw: bytes, rows: list[dict]) -> list[tuple[bool, int, int]]:
    """(whether it is a credential, start, end) in bytes: of a credential its value, else the line."""
    lines = raw.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    spans = []
    for row in rows:
        first, last = int(row["LineStart"]) - 1, int(row["LineEnd"]) - 1
        if last >= len(lines):
            continue
        start, end = starts[first], starts[last + 1] - 1
        credential = row["GroundTruth"] == "T"
        if credential and row["ValueStart"]:
            start += len(lines[first].decode()[: int(row["ValueStart"])].encode())
        if credential and row["ValueEnd"]:
            end = starts[last] + len(lines[last].decode()[: int(row["ValueEnd"])].encode())
        spans.append((credential, start, end))
    return spans


def count(files: list[tuple[Path, list[dict]]], rules: list[Rule]) -> Counter:
    """Of the labelled lines: `credentials`, of these `found`, `others`, and of these `wrong`."""
    counts = Counter()
    for path, rows in files:
        raw = path.read_bytes()
        replaced = [span for rule in rules for span in secrets_of(rule, raw)]
        for credential, start, end in labelled_spans(raw, rows):
            within = max((min(end, last) - max(start, first) for first, last in replaced), default=0)
            counts["credentials" if credential else "others"] += 1
            if credential and within >= (end - start) / 2:
                counts["found"] += 1
            elif not credential and within > 0:
                counts["wrong"] += 1
    return counts


def main() -> None:
    files = []
    for path, rows in labelled_files(Path(sys.argv[1])):
        try:
            path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        files.append((path, rows))
    table = [["rules", "found", "of credentials", "wrong", "of other lines"]]
    sets = {
        "passwords and keys": secret_rules(),
        "and personal data": [*secret_rules(), *personal_rules()],
    }
    for name, rules in sets.items():
        counts = count(files, rules)
        table.append([name, counts["found"], counts["credentials"], counts["wrong"], counts["others"]])
    repositories = len({rows[0]["RepoName"] for _, rows in files})
    values = {
        "repositories": Value(repositories),
        "lines": Value(table[1][2] + table[1][4]),
        "rules": Value(len(secret_rules())),
    }
    about = f"{repositories} repositories of CredData, {len(files)} files"
    store("credentials", values, about, {"found": table})


if __name__ == "__main__":
    main()
