"""How many packed rows a stage will train on: counted from its shards, or estimated before there are any.

found = stage_rows(experiment, sources, layout, "sft")     # Rows(train=1310, validation=27, source="estimated ...")
"""

from pathlib import Path
from typing import NamedTuple

from scripts.common.files import read_json
from scripts.experiment.layout import MANIFEST, Layout, raw_manifest
from scripts.experiment.packed_rows import PackedRows
from scripts.experiment.settings.corpus import Dataset, OwnDataset, Split
from scripts.experiment.settings.experiment import Experiment
from scripts.sources.tables.source import Source
from scripts.tokens.packing.mixing import most_rows, validation_rows

# Of 60 source distributions with 746 MB, filters and deduplication kept 197 MB, 50 million Qwen tokens (DECISIONS.md).
KEPT_OF_RAW = 197 / 746
BYTES_PER_TOKEN = 3.94


class Rows(NamedTuple):
    """Packed rows of a stage's dataset; None where nothing is known of them."""

    train: int | None
    validation: int | None
    source: str  # where the numbers come from


def bytes_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) if path.is_dir() else 0


def raw_bytes(sources: list[Source]) -> tuple[float, int]:
    """(bytes of all sources, how many of them are known): those not fetched yet count as the mean of the others."""
    known = []
    for source in sources:
        manifest = raw_manifest(source.raw_name)
        if manifest.is_file():
            known.append(read_json(manifest)["bytes"])
        elif source.kind == "path" and (size := bytes_of(Path(source.location))):
            known.append(size)
    return (sum(known) / len(known) * len(sources), len(known)) if known else (0, 0)


def estimated_bytes(dataset: Dataset, sources: list[Source]) -> tuple[float, str] | None:
    """(bytes of text, what the estimate rests on) of a dataset that is not there yet; None where nothing is known."""
    if dataset.kind in ("code", "repository", "instruct"):
        size, known = raw_bytes(sources)
        if not known:
            return None
        if known < len(sources):
            return KEPT_OF_RAW * size, f"estimated from the sizes of {known} of {len(sources)} sources"
        return KEPT_OF_RAW * size, f"estimated from the sizes of {known} sources"
    path = Path(dataset.path) if dataset.path else None
    if path is None or not (size := bytes_of(path)):
        return None
    if limit := getattr(dataset, "max_megabytes", None):
        size = min(size, limit * 1e6)
    return size, f"estimated from the {size / 1e6:,.1f} MB at {path}"


def stage_rows(
    experiment: Experiment, sources: list[Source], layout: Layout, stage: str, assumed_rows: int | None = None
) -> Rows:
    """The packed rows of a stage.

    Args:
        assumed_rows: plan for so many training rows, whatever is there.
    """
    settings = experiment.training.train[stage]
    packed = PackedRows(experiment, layout)
    if assumed_rows:
        split = split_of(experiment, packed.datasets_of(settings.data)[0])
        return Rows(
            assumed_rows,
            round(assumed_rows * split.validation / (1 - split.validation - split.test)),
            "of the rows asked for",
        )
    manifest = packed.stage(stage) / MANIFEST
    if manifest.is_file():
        splits = read_json(manifest)["splits"]
        return Rows(splits["train"]["rows"], splits["validation"]["rows"], "counted")
    rows = {
        part: dataset_rows(experiment, sources, part, settings.sequence_length)
        for part in packed.datasets_of(settings.data)
    }
    first = next(iter(rows.values()))
    if any(part.train is None for part in rows.values()):
        return Rows(None, None, "unknown: neither shards nor sources are here")
    if (mixture := experiment.tokens.mix.get(settings.data)) is None:
        return first
    train = most_rows(mixture.parts, {name: part.train for name, part in rows.items()})[0]
    if mixture.million_tokens:
        train = min(train, int(mixture.million_tokens * 1e6 // settings.sequence_length))
    validation = validation_rows(mixture.parts, {name: part.validation for name, part in rows.items()})
    return Rows(train, sum(validation.values()), f"a mixture, {first.source}")


def split_of(experiment: Experiment, name: str) -> Split | OwnDataset:
    """What says which shares of a dataset are for validation and test: the dataset itself, or all sources' split."""
    dataset = experiment.corpus.compose[name]
    return dataset if hasattr(dataset, "validation") else experiment.corpus.split


def dataset_rows(experiment: Experiment, sources: list[Source], name: str, length: int) -> Rows:
    """The estimated rows of a dataset at a length."""
    dataset = experiment.corpus.compose[name]
    estimate = estimated_bytes(dataset, sources)
    if estimate is None:
        return Rows(None, None, "unknown: neither shards nor sources are here")
    size, source = estimate
    split = split_of(experiment, name)
    rows = size / BYTES_PER_TOKEN / length
    train = max(1, round(rows * (1 - split.validation - split.test)))
    return Rows(train, round(rows * split.validation), source)
