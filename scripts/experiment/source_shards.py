"""Shards of the sources: jobs that handle some dozens of sources each.

source_shards(["click", "jinja"])      # {"0": ["click", "jinja"]}
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from scripts.common.hashing import text_digest
from scripts.experiment.layout import (
    FIRST_COMMITS,
    MANIFEST,
    Layout,
    fetched_shard,
    filtered_shard,
    history_shard,
    raw_archive,
    raw_manifest,
)
from scripts.experiment.settings.record import Record

SIZE = 64  # most sources of a shard, on average
GROUPS = 8  # most groups of bands
ONE_BY_ONE = 512  # most sources that are fetched and filtered in a job each; a dry run takes 10 to 20 ms for each


def source_shards(names: Iterable[str]) -> dict[str, list[str]]:
    """The names by shard, each shard in the given order: one up to 64 sources, else so many that 32 to 64 share one.

    A hash of the name decides, so a new source joins one shard and leaves the others as they are, except where their
    number doubles.
    """
    names, shards = list(names), defaultdict(list)
    count = 1
    while count * SIZE < len(names):
        count *= 2
    for name in names:
        shards[str(int.from_bytes(text_digest(name)[:8]) % count)].append(name)
    return dict(shards)


def bucket_groups(shards: Collection[str]) -> list[str]:
    """The groups of the signatures' bands whose buckets are found in a job each: as many as shards, at most 8."""
    return [str(number) for number in range(min(GROUPS, len(shards)))]


def in_shards(names: Collection[str]) -> bool:
    """Whether so many sources are fetched and filtered in shards, not in a job each."""
    return len(names) > ONE_BY_ONE


class Table(NamedTuple):
    """JSON lines that are copied to Parquet as one table."""

    manifests: list[Path]  # that say whether they changed
    folders: list[Path]


class SourceFiles:
    """The manifests that say what was fetched and filtered: of each source, or of each shard where there are many.

    Args:
        sources: the rows of the sources table by name.
        shards: their names by shard.
        layout: where the results lie.

    Attributes:
        in_shards: whether the sources are fetched and filtered in shards.
    """

    def __init__(self, sources: dict[str, Record], shards: dict[str, list[str]], layout: Layout):
        self.sources, self.shards, self.layout = sources, shards, layout
        self.in_shards = in_shards(sources)

    def members(self, shard: str) -> list[Record]:
        """The sources of a shard, by name: in fetching and filtering the order of duplicates does not matter."""
        return [self.sources[name] for name in sorted(self.shards[shard])]

    def shards_of(self, names: Iterable[str]) -> list[str]:
        """The shards in which these sources are."""
        names = set(names)
        return [shard for shard, members in self.shards.items() if names.intersection(members)]

    def fetched(self, names: Iterable[str]) -> list[Path]:
        """The manifests of what was fetched of these sources."""
        if self.in_shards:
            return [fetched_shard(self.layout, shard) / MANIFEST for shard in self.shards_of(names)]
        return [raw_manifest(self.sources[name].raw_name) for name in names]

    def histories(self, names: Iterable[str]) -> list[Path]:
        """The manifests of the first commits of these sources."""
        if self.in_shards:
            return [history_shard(self.layout, shard) / MANIFEST for shard in self.shards_of(names)]
        return [self.layout.history(name) / MANIFEST for name in names]

    def filtered(self, names: Iterable[str]) -> list[Path]:
        """The manifests of what was filtered of these sources."""
        if self.in_shards:
            return [filtered_shard(self.layout, shard) / MANIFEST for shard in self.shards_of(names)]
        return [self.layout.filtered(name) / MANIFEST for name in names]

    def documents(self, names: Iterable[str]) -> list[Path]:
        """The documents of these sources that rules declare; those of a shard are listed in its manifest."""
        return [] if self.in_shards else [self.layout.filtered(name) / "documents.jsonl.zst" for name in names]

    def archives(self, names: Iterable[str]) -> list[Path]:
        """The archives of these sources that rules declare; those of a shard are listed in its manifest."""
        return [] if self.in_shards else [raw_archive(self.sources[name].raw_name) for name in names]

    def first_commits(self, names: Iterable[str]) -> list[Path]:
        """The first commits of these sources that rules declare; those of a shard are listed in its manifest."""
        return [] if self.in_shards else [self.layout.history(name) / FIRST_COMMITS for name in names]

    def tables(self, datasets: Iterable[str]) -> dict[str, Table]:
        """What is copied to Parquet, by the name of the copy; a shard's sources are one table."""
        folders = {f"compose-{name}": self.layout.dataset(name) for name in datasets}
        folders |= {"split": self.layout.split} if self.sources else {}
        tables = {name: Table([folder / MANIFEST], [folder]) for name, folder in folders.items()}
        for shard, names in self.shards.items():
            tables[f"filter-{shard}"] = Table(self.filtered(names), [self.layout.filtered(name) for name in names])
        return tables
