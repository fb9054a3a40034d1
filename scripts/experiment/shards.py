"""Which folders hold what: shards of the sources, and packed rows of datasets and mixtures.

source_shards(["click", "jinja"])               # {"0": ["click", "jinja"]}, for the signatures
SourceFiles(sources, shards, layout).shards     # {"click": ["click"], "jinja": ["jinja"]} up to 512 sources
PackedRows(experiment, layout).stage("sft")     # results/tokens/mix/sft_mix-4096
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts.common.text import text_digest
from scripts.experiment.layout import FIRST_COMMITS, MANIFEST, Layout, raw_archive, raw_manifest
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import Record, as_json, to_dict

SIZE = 64  # most sources of a shard, on average
MARK = "_"  # begins the name of a shard of several sources; no source's name begins so
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


def has_several(shard: str) -> bool:
    """Whether a shard of this name has several sources, so that its manifest alone is declared."""
    return shard.startswith(MARK)


class SourceFiles:
    """The shards in which sources are fetched and filtered, and the files that say what came of them.

    Up to 512 sources each is a shard of its own: its rules declare its files. The rules of a shard of several declare
    its manifest, which lists the files of all its sources.

    Args:
        sources: the rows of the sources table by name.
        shards: their names by shard, as their signatures are made.
        layout: where the results lie.

    Attributes:
        one_by_one: whether each source is a shard of its own.
        shards: the names of each shard's sources. A shard of several has a name that no source has, as `_0`.
        fetch_shards: the same under the names that the jobs of `fetch` have: archives are named by their pins.
    """

    def __init__(self, sources: dict[str, Record], shards: dict[str, list[str]], layout: Layout):
        self.sources, self.signature_shards, self.layout = sources, shards, layout
        self.one_by_one = len(sources) <= ONE_BY_ONE
        if self.one_by_one:
            self.shards = {name: [name] for name in sources}
            self.fetch_shards = {source.raw_name: [name] for name, source in sources.items()}
        else:
            # in fetching and filtering the order of duplicates does not matter
            self.shards = self.fetch_shards = {f"{MARK}{shard}": sorted(names) for shard, names in shards.items()}

    def shards_of(self, names: Iterable[str]) -> list[str]:
        """The shards in which these sources are."""
        if self.one_by_one:
            return list(names)
        names = set(names)
        return [shard for shard, members in self.shards.items() if names.intersection(members)]

    def declared(self, *paths: Path) -> list[Path]:
        """Those of these files of sources that rules declare: none where a shard's manifest lists them."""
        return list(paths) if self.one_by_one else []

    def fetched(self, names: Iterable[str]) -> list[Path]:
        """The manifests of what was fetched of these sources."""
        if self.one_by_one:
            return [raw_manifest(self.sources[name].raw_name) for name in names]
        return [self.layout.fetched(shard) / MANIFEST for shard in self.shards_of(names)]

    def histories(self, names: Iterable[str]) -> list[Path]:
        """The manifests of the first commits of these sources."""
        return [self.layout.history(shard) / MANIFEST for shard in self.shards_of(names)]

    def filtered(self, names: Iterable[str]) -> list[Path]:
        """The manifests of what was filtered of these sources."""
        return [self.layout.filtered(shard) / MANIFEST for shard in self.shards_of(names)]

    def documents(self, names: Iterable[str]) -> list[Path]:
        """The documents of these sources that rules declare."""
        return self.declared(*(self.layout.filtered(name) / "documents.jsonl.zst" for name in names))

    def archives(self, names: Iterable[str]) -> list[Path]:
        """The archives of these sources that rules declare."""
        return self.declared(*(raw_archive(self.sources[name].raw_name) for name in names))

    def first_commits(self, names: Iterable[str]) -> list[Path]:
        """The first commits of these sources that rules declare."""
        return self.declared(*(self.layout.history(name) / FIRST_COMMITS for name in names))

    def pins(self, names: Iterable[str]) -> list[str]:
        """Of each source what decides its archive, as JSON."""
        return [as_json(self.sources[name].model_dump(include={"name", "kind", "pin"})) for name in names]

    def locations(self, names: Iterable[str]) -> list[str]:
        """Where each of these sources is."""
        return [self.sources[name].location for name in names]

    def members(self, names: Iterable[str], licences: bool) -> list[str]:
        """What `filter` must know of each source, as JSON; its licence only where licences decide what is kept."""
        members = []
        for name in names:
            source = self.sources[name]
            licence = source.licence if licences else ""
            members.append(as_json({"name": name, "archive": str(raw_archive(source.raw_name)), "licence": licence}))
        return members


@dataclass(frozen=True)
class PackedRows:
    """The folders of packed rows of an experiment."""

    experiment: Experiment
    layout: Layout

    def datasets_of(self, name: str) -> list[str]:
        """The datasets of a mixture; for a dataset only itself."""
        mixture = self.experiment.tokens.mix.get(name)
        return list(mixture.parts) if mixture else [name]

    def stage(self, name: str) -> Path:
        """The folder that a stage trains on."""
        stage = self.experiment.stages[name]
        return self.rows(stage.data, stage.sequence_length)

    def rows(self, name: str, length: int) -> Path:
        """The folder of a dataset or a mixture at a length."""
        return (self.layout.mixture if name in self.experiment.tokens.mix else self.layout.shards)(name, length)

    def targets(self) -> list[tuple[str, int]]:
        """(dataset or mixture, length) of what the stages train on, each once."""
        return list(dict.fromkeys((stage.data, stage.sequence_length) for stage in self.experiment.stages.values()))

    def folders(self) -> list[Path]:
        """The folders of target `data`."""
        return [self.rows(name, length) for name, length in self.targets()]

    def mixed(self) -> list[Path]:
        """Those of `folders` that hold mixtures."""
        return [self.rows(name, length) for name, length in self.targets() if name in self.experiment.tokens.mix]

    def card_settings(self) -> dict:
        """The settings that the data cards use: those of the datasets, and the names of the folders of rows."""
        compose = {name: to_dict(settings) for name, settings in self.experiment.corpus.compose.items()}
        folders = {"packed": self.packed(), "mixed": self.mixed()}
        return {"compose": compose} | {kind: [folder.name for folder in paths] for kind, paths in folders.items()}

    def packed(self) -> list[Path]:
        """The folders of packed datasets, also of the parts of mixtures."""
        folders = []
        for name, length in self.targets():
            for part in self.datasets_of(name):
                folders.append(self.layout.shards(part, length))
        return list(dict.fromkeys(folders))
