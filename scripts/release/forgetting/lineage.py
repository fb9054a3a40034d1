"""What contains a source: datasets, shards, models, evaluations of an experiment, and published results of all.

found = lineage(experiment, sources, "click")
found.datasets["code"]["train"]      # examples that were made from its documents
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from scripts.common.files import read_json, read_jsonl
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import MANIFEST, SPLITS, Layout, split_file
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.provenance import Index, Provenance, results_pointer


@dataclass
class Lineage:
    """Everything downstream of a source.

    Attributes:
        documents: files of the source that the filter kept; None where it was not filtered here.
        datasets: name → split → examples made from its documents; datasets that hold none are left out.
        models: name → why it contains the source.
        scored: (suite, dataset) whose test split holds its documents.
        published: root of published results → how many of its files were made from it; None where they are not here.
    """

    documents: int | None
    datasets: dict[str, dict[str, int]]
    models: dict[str, str]
    scored: list[tuple[str, str]]
    published: dict[str, int | None]

    def lines(self) -> list[str]:
        """For people, a line each."""
        lines = [f"documents kept by filter: {'not filtered here' if self.documents is None else self.documents}"]
        for name, counts in self.datasets.items():
            lines.append(f"dataset {name}: {', '.join(f'{count:,} in {split}' for split, count in counts.items())}")
        lines += [f"model {name}: {reason}" for name, reason in self.models.items()]
        lines += [f"evaluation {suite}: scores documents of it in {dataset}" for suite, dataset in self.scored]
        for root, count in self.published.items():
            known = "not pulled here, so not known" if count is None else f"{count} files made from it"
            lines.append(f"published {root}: {known}")
        return lines


def lineage(view: ExperimentView, source: str) -> Lineage:
    """The lineage of a source, from what lies on disk; what is not made yet contains nothing.

    Raises:
        UserError: a file is broken.
    """
    manifest = view.layout.filtered(source) / MANIFEST
    datasets = {}
    for name in view.datasets:
        if name not in view.own_datasets and (counts := examples_of(view.layout.dataset(name), source)):
            datasets[name] = counts
    documents = read_json(manifest)["kept"] if manifest.is_file() else None
    scored = [
        (suite, dataset)
        for suite in view.suites
        for dataset in view.scored_datasets(suite)
        if "test" in datasets.get(dataset, {})
    ]
    return Lineage(documents, datasets, models(view, set(datasets)), scored, published(source))


def examples_of(folder: Path, source: str) -> dict[str, int]:
    """Split → examples of a dataset that were made from documents of a source."""
    counts = Counter()
    for split in SPLITS:
        if (path := split_file(folder, split)).is_file():
            counts[split] = sum(example.get("source") == source for example in read_jsonl(path))
    return dict(+counts)


def models(view: ExperimentView, datasets: set[str]) -> dict[str, str]:
    """Model → why it contains the source whose documents are in `datasets`."""
    reasons = {}
    if view.models and view.scratch and view.tokenizer_texts == [view.layout.split] and datasets:
        reasons["base"] = "its tokenizer was learned from the corpus"
    for _ in view.stages:  # stages may be listed in any order
        for name, stage in view.stages.items():
            if datasets_of_source := [part for part in view.rows.datasets_of(stage.data) if part in datasets]:
                reasons[name] = f"was trained on dataset {', '.join(datasets_of_source)}"
            elif stage.origin in reasons:
                reasons.setdefault(name, f"goes on from {stage.origin}")
    return reasons


def published(source: str) -> dict[str, int | None]:
    """Results root → how many of its published files were made from a source; None where they were not pulled here."""
    counts, index = {}, Index()
    for pointer in sorted(Path("data").glob("*.dvc")):
        root = pointer.stem.replace("+", "/")
        if results_pointer(root) != pointer:
            continue
        listed = {entry["path"] for entry in read_yaml(pointer)["outs"]}
        here = [made for path, made in index.jobs.items() if str(path) in listed]
        if not here:
            counts[root] = None
        elif files := made_from(source, here, Layout(Path(root)).filtered(source)):
            counts[root] = len(files)
    return counts


def made_from(source: str, jobs: list[Provenance], filtered: Path) -> set[str]:
    """The files that these jobs made from a source's archives, directly or not, less the archives themselves.

    Args:
        filtered: the folder of the source's documents. A job that filters a shard of sources has no archive among its
            inputs, but these files beside its outputs.
    """
    archive = re.compile(rf"data/raw/{re.escape(source)}-[0-9a-f]{{12}}\.(json|tar\.zst)(\.dvc)?")
    affected = {path for job in jobs for path in job.beside if Path(path).parent == filtered}
    while True:
        outputs = set()
        for job in jobs:
            if any(path in affected or archive.fullmatch(path) for path in (*job.inputs, *job.beside)):
                outputs.update(path for path in job.outputs if not archive.fullmatch(path))
        if outputs <= affected:
            return affected
        affected |= outputs
