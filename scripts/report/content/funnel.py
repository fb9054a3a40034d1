"""Counts of files from all sources through filters, deduplication and split."""

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.layout import MANIFEST, Layout

FILES = ["kept", "duplicate", "filtered"]  # columns that count files


class FunnelCounts(NamedTuple):
    """seen = kept + dropped.sum(). Files without a language are in no row of `languages`."""

    seen: int
    kept: int
    dropped: pd.Series  # files by reason, most first
    dropped_bytes: dict[str, int]  # bytes by reason, in the order of `dropped`
    languages: pd.DataFrame  # by language, most files first: kept, duplicate, filtered, and bytes of the kept ones
    sources: pd.DataFrame  # by source: seen, kept (by the filters), and the share of its bytes that is kept
    splits: dict[str, int]  # documents by split


def read_funnel(results: Path, sources: list[str]) -> FunnelCounts | None:
    """The counts of a run; None if it has no sources, as all its datasets are the user's own. Raises UserError: a
    manifest is missing, malformed, or its counts do not add up."""
    if not sources:
        return None
    layout = Layout(results)
    filtered = [read_counts(layout.filtered(source) / MANIFEST) for source in sources]
    deduplicated = read_counts(layout.deduplicated / MANIFEST)
    counts = []
    for language, of_language in chain.from_iterable(manifest["languages"].items() for manifest in filtered):
        counts.append({"language": language, "filtered": sum(of_language["dropped"].values())})
    counts += [
        {**counts, "language": language, "duplicate": sum(counts["dropped"].values())}
        for language, counts in deduplicated["languages"].items()
    ]
    languages = pd.DataFrame(counts, columns=["language", *FILES, "bytes"]).groupby("language").sum().astype(int)
    dropped = most_first(
        pd.DataFrame([manifest["dropped"] for manifest in [*filtered, deduplicated]]).sum().astype(int)
    )
    sizes = Counter()
    for manifest in [*filtered, deduplicated]:
        sizes.update(manifest.get("dropped_bytes", {}))
    of_sources = [
        {"seen": manifest["seen"], "kept": manifest["kept"], "share": kept_share(manifest)} for manifest in filtered
    ]
    return FunnelCounts(
        seen=sum(manifest["seen"] for manifest in filtered),
        kept=deduplicated["kept"],
        dropped=dropped,
        dropped_bytes={reason: sizes[reason] for reason in dropped.index},
        languages=languages.loc[most_first(languages[FILES].sum(axis=1)).index],
        sources=pd.DataFrame(of_sources, index=sources),
        splits=read_json(layout.split / MANIFEST)["documents"],
    )


def kept_share(manifest: dict) -> float:
    """The share of a source's bytes that its filter kept; 1 if it had none, or if its manifest counts no bytes."""
    kept = sum(counts["bytes"] for counts in manifest["languages"].values())
    total = kept + sum(manifest.get("dropped_bytes", {}).values())
    return kept / total if total else 1.0


def most_first(counts: pd.Series) -> pd.Series:
    """Sorted by count, largest first; equal counts by name."""
    return counts.sort_index().sort_values(ascending=False, kind="stable")


def read_counts(path: Path) -> dict:
    """A manifest of `filter` or `deduplicate`."""
    manifest = read_json(path)
    try:
        total = manifest["kept"] + sum(manifest["dropped"].values())
        languages, seen = manifest["languages"], manifest["seen"]
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: holds no counts of files ({error}); delete it and run again") from error
    if total != seen or not isinstance(languages, dict):
        raise UserError(f"{path}: {total} files kept or dropped, but {seen} seen; delete it and run again")
    return manifest
