"""Show how the data of two runs or of two git revisions differ: sources, files, tokens, funnel, and examples.

    stagecraft data-diff results results/mine
    stagecraft data-diff main~1 main --experiment config/experiments/mine.yaml

Each side is a results folder or a git revision. For a revision the sources table is read from git, and the results that
were published with it come through DVC. Files that were added or removed are listed with the reason, where the rejects
of the side without them give one.
"""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from scripts.common.hashing import text_digest
from scripts.experiment.machine_files import read_yaml
from scripts.report.content.data_state import DataState, data_state
from scripts.report.content.formatting import table

EXAMPLES = 5  # files that are named of those added, removed, changed or moved
LISTED = 20  # sources in a table


def difference(a: int | None, b: int | None) -> tuple[str, str, str]:
    """The cells of a row: the count in A, in B, and the difference."""
    cells = ["-" if value is None else f"{value:,}" for value in (a, b)]
    return cells[0], cells[1], f"{b - a:+,}" if a is not None and b is not None and a != b else ""


def counts(title: str, rows: Iterable[tuple[str, int | None, int | None]]) -> list[str]:
    """A table of the counts that differ; the number of equal ones is below it."""
    rows = list(rows)
    changed = [(name, *difference(a, b)) for name, a, b in rows if a != b]
    if not rows:
        return []
    if not changed:
        return ["", f"{title}: the same"]
    equal = [f"  {len(rows) - len(changed)} more are the same"] if len(changed) < len(rows) else []
    return ["", *table([(title, "A", "B", "B - A"), *changed]), *equal]


def pairs(a: dict, b: dict) -> list[tuple[str, int | None, int | None]]:
    """(name, count in A, count in B) of every name in two counters; None where a side lacks it."""
    return [(name, a.get(name), b.get(name)) for name in dict.fromkeys([*a, *b])]


def source_lines(a: DataState, b: DataState) -> list[str]:
    """The rows of the sources table that were added, removed or changed."""
    if a.sources is None or b.sources is None:
        return []
    lines = []
    for name in sorted({*a.sources, *b.sources}):
        old, new = a.sources.get(name), b.sources.get(name)
        row = new or old
        if old is None or new is None:
            lines.append(f"  {'+' if new else '-'} {name}: {row['kind']} {row['pin'][:12]}, {row['licence']}")
        elif changed := [column for column in new if old.get(column) != new[column]]:
            values = (f"{column} {str(old.get(column))[:40]} -> {str(new[column])[:40]}" for column in changed)
            lines.append(f"  * {name}: {'; '.join(values)}")
    more = [f"  and {len(lines) - LISTED} more"] if len(lines) > LISTED else []
    head = f"sources: {len(a.sources)} in A, {len(b.sources)} in B{'' if lines else ', the same'}"
    return ["", head, *lines[:LISTED], *more]


def funnel_rows(state: DataState) -> dict[str, int]:
    """The counts of the funnel: files seen, dropped by reason, documents kept, documents of each split."""
    if (funnel := state.funnel) is None:
        return {}
    dropped = {f"dropped: {reason}": int(count) for reason, count in funnel.dropped.items()}
    return {"files seen": funnel.seen, **dropped, "documents kept": funnel.kept, **funnel.splits}


def sample(keys: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """`EXAMPLES` of the keys, chosen by a hash, so that they come from different folders."""
    return sorted(sorted(keys, key=lambda key: text_digest("/".join(key)))[:EXAMPLES])


def example_lines(title: str, keys: set[tuple[str, str]], other: DataState, side: str) -> list[str]:
    """Some of the `keys`, each with the reason why the `other` side, called `side`, dropped it."""
    if not keys:
        return []
    shown = sample(keys)
    reasons = other.reasons(set(shown))
    more = f", as {len(shown)} of them" if len(keys) > len(shown) else ""
    lines = [f"  {'/'.join(key)}{f'  ({side}: {reasons[key]})' if key in reasons else ''}" for key in shown]
    return ["", f"{title}: {len(keys):,}{more}:", *lines]


def document_lines(a: DataState, b: DataState) -> list[str]:
    """The documents that were added, removed, changed or moved to another split: counts by source, and examples."""
    if a.documents is None or b.documents is None:
        return []
    added, removed = b.documents.keys() - a.documents.keys(), a.documents.keys() - b.documents.keys()
    both = a.documents.keys() & b.documents.keys()
    changed = {key for key in both if a.documents[key].sha256 != b.documents[key].sha256}
    moved = {key for key in both if a.documents[key].split != b.documents[key].split}
    if not added | removed | changed | moved:
        return ["", f"documents: the same {len(both):,}, in the same splits"]
    kinds = {"added": added, "removed": removed, "changed": changed, "moved": moved}
    numbers = {kind: Counter(source for source, _ in keys) for kind, keys in kinds.items()}
    total = sum(numbers.values(), Counter())
    rows = [(source, *(f"{numbers[kind][source]:,}" for kind in kinds)) for source, _ in total.most_common(LISTED)]
    more = [f"  and {len(total) - LISTED} more sources"] if len(total) > LISTED else []
    lines = ["", *table([("documents of", *kinds), *sorted(rows)]), *more]
    lines += example_lines("added", added, a, "A")
    lines += example_lines("removed", removed, b, "B")
    lines += example_lines("changed in their text", changed, b, "B")
    if moved:
        shown = (f"  {'/'.join(key)}: {a.documents[key].split} -> {b.documents[key].split}" for key in sample(moved))
        lines += ["", f"moved to another split: {len(moved):,}, such as", *shown]
    return lines


def flat(counted: dict[str, dict[str, int]]) -> dict[str, int]:
    """{"code": {"train": 5}} as {"code train": 5}."""
    return {f"{name} {split}": count for name, splits in counted.items() for split, count in splits.items()}


def difference_lines(a: DataState, b: DataState) -> list[str]:
    """All differences, as lines for a terminal."""
    lines = [f"A: {a.label}", f"B: {b.label}"]
    lines += [f"note: {side}: {note}" for side, state in (("A", a), ("B", b)) for note in state.notes]
    lines += source_lines(a, b)
    if a.funnel and b.funnel:
        lines += counts("files", pairs(funnel_rows(a), funnel_rows(b)))
        sizes = [state.funnel.languages["bytes"].to_dict() for state in (a, b)]
        lines += counts("bytes kept of", pairs(*sizes))
    lines += document_lines(a, b)
    if a.datasets and b.datasets:
        lines += counts("examples", pairs(flat(a.datasets), flat(b.datasets)))
    if a.tokens and b.tokens:
        lines += counts("tokens", pairs(flat(a.tokens), flat(b.tokens)))
    return lines


def print_difference(a: str, b: str, profile: str, configfile: Path | None) -> None:
    """Print how the data of two results roots or git revisions differ."""
    default = read_yaml(Path(profile) / "config.yaml").get("configfile", "config/config.yaml")
    path = Path(os.path.relpath(configfile or default))
    with data_state(a, path) as state_a, data_state(b, path) as state_b:
        print("\n".join(difference_lines(state_a, state_b)))
