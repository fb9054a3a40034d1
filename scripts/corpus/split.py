"""Split documents into train, validation and test: by file, by repository, or by the date of their first commit.

    python -m scripts.corpus.split --documents results/corpus/deduplicate \\
        --settings '{"validation": 0.02, "test": 0.02}' --out results/corpus/split
    python -m scripts.corpus.split --documents results/corpus/deduplicate --history results/sources/history \\
        --settings '{"by": "time", "after": "2025-01-01"}' --out results/corpus/split

By file, the split depends only on the document's source and path, of a test on those of the module that it tests
(scripts/common/units.py): a module whose test is trained on is not held out. So it stays the same when sources are
added or removed, or when the text changes. With `hold_out` the files of some paths are the test split. By repository
it depends only on the source's name, unless there are so few sources that a share would be less than one (see
`repository_splits`). By time, documents first committed on the day `after` or later are the test split, and validation
is a share of the rest as by file. A document is as old as the
oldest of its copies, also of those that `deduplicate` removed.
"""

import logging
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import jsonl_writer, read_jsonl
from scripts.common.manifest import read_manifest, write_manifest
from scripts.common.options import command
from scripts.common.progress import Progress
from scripts.common.text import text_digest
from scripts.common.units import units
from scripts.corpus.formats.filter_writer import DOCUMENTS, REJECTS, repository_splits, split_of
from scripts.experiment.layout import FIRST_COMMITS, SPLITS, split_file
from scripts.experiment.settings.corpus import Split


def named_split(name: str, settings: Split) -> str:
    """The split by file of the unit `source/path`."""
    return split_of(text_digest(name), settings)


def name_of(document: dict) -> str:
    """`source/path`."""
    return f"{document['source']}/{document['path']}"


def commit_times(folder: Path, history: Path) -> dict[str, int]:
    """When each document, or the oldest of its removed copies, was first committed (seconds since 1970, UTC). `folder`:
    folder of the deduplicated documents and rejects; `history`: folder with a folder of first commits per source."""
    first, waiting = {}, {}  # by source, of files that stand for a document: path → the document's name
    for document in read_jsonl(folder / DOCUMENTS):
        waiting.setdefault(document["source"], {})[document["path"]] = name_of(document)
    for reject in read_jsonl(folder / REJECTS):
        if reject["reason"] in ("duplicate", "near_duplicate"):  # the detail names the copy that was kept
            waiting.setdefault(reject["source"], {})[reject["path"]] = reject["detail"]
    for source, undated in waiting.items():
        read_manifest(history / source)
        for row in read_jsonl(history / source / FIRST_COMMITS):
            name = undated.pop(row["path"], None)
            if name:
                first[name] = min(row["first_commit"], first.get(name, row["first_commit"]))
        if undated:
            raise UserError(
                f"{history / source / FIRST_COMMITS}: no first commit of {min(undated)}; delete it and run again"
            )
    return first


def held_out_by_pattern(documents: list[str], settings: Split) -> dict[str, str]:
    """The split of each document `source/path`: for test those that a pattern of `hold_out` matches, with the module
    that belongs to a held-out test, and the reverse. Raises UserError: a pattern matches none."""
    matched = set()
    for pattern in settings.hold_out:
        found = {name for name in documents if fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}")}
        if not found:
            raise UserError(
                f"corpus.split.hold_out: {pattern!r} matches none of the {len(documents):,} documents, which are called"
                f" as {min(documents, default='source/path')}; a `*` stands for any part of a path"
            )
        matched |= found
    unit_of = dict(zip(documents, units(documents), strict=True))
    held_out, rest = {unit_of[name] for name in matched}, settings.model_copy(update={"test": 0})
    return {name: "test" if unit in held_out else named_split(unit, rest) for name, unit in unit_of.items()}


def assign(folder: Path, settings: Split, history: Path | None) -> tuple[dict[str, str], dict]:
    """(the split of each source by repository, else of each document; facts for the manifest)."""
    if settings.by == "repository":
        sources = {document["source"] for document in read_jsonl(folder / DOCUMENTS)}
        splits = repository_splits(sources, settings)
        counts = Counter(splits.values())
        return splits, {"sources": {split: counts[split] for split in SPLITS}}
    if settings.by == "time":
        if history is None:
            raise UserError("--history: required with `by: time`")
        start = datetime.fromisoformat(settings.after).replace(tzinfo=UTC).timestamp()
        times = commit_times(folder, history)
        before = settings.model_copy(update={"test": 0})
        splits = {name: "test" if at >= start else named_split(name, before) for name, at in times.items()}
        if times and max(times.values()) < start:
            newest = datetime.fromtimestamp(max(times.values()), UTC).date()
            raise UserError(
                f"corpus.split.after: no document was first committed on {settings.after} or later, the newest on"
                f" {newest}; set an earlier day"
            )
        if times and not {"train", "validation"} & {*splits.values()}:
            oldest = datetime.fromtimestamp(min(times.values()), UTC).date()
            raise UserError(
                f"corpus.split.after: all documents were first committed on {settings.after} or later, the oldest on"
                f" {oldest}; set a later day"
            )
        return splits, {"after": settings.after}
    documents = [name_of(document) for document in read_jsonl(folder / DOCUMENTS)]
    if settings.hold_out:
        return held_out_by_pattern(documents, settings), {}
    return {name: named_split(unit, settings) for name, unit in zip(documents, units(documents), strict=True)}, {}


def split(documents: Path, settings: Split, out: Path, history: Path | None = None) -> dict:
    """Write the documents in a folder to one file per split in `out`; returns the manifest.

    Args:
        history: folder with a folder of first commits per source, for `by: time`.

    Raises:
        UserError: the documents differ from their manifest, or none is left for training.
    """
    progress = Progress("split", "documents", read_manifest(documents)["kept"])
    splits, facts = assign(documents, settings, history)
    counts = dict.fromkeys(SPLITS, 0)
    with ExitStack() as stack:
        write = {name: stack.enter_context(jsonl_writer(split_file(out, name))) for name in SPLITS}
        for document in read_jsonl(documents / DOCUMENTS):
            name = splits[document["source"] if settings.by == "repository" else name_of(document)]
            counts[name] += 1
            write[name](document)
            progress.add()
        if not counts["train"]:
            raise UserError(
                f"{documents / DOCUMENTS}: {sum(counts.values())} documents, none left to train on; add sources, or"
                " check in rejects.jsonl.zst why corpus.filter drops their files"
            )
    progress.end()
    logging.info(f"split by {settings.by}: {', '.join(f'{count:,} {name}' for name, count in counts.items())}")
    return write_manifest(out, [split_file(out, name).name for name in SPLITS], documents=counts, **facts)


if __name__ == "__main__":
    run(command(split))
