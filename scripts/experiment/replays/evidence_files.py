"""The evidence that `stagecraft accept` left in the folders of an experiment's outputs.

evidence_files(view)      # ["results/corpus/filter/click/accepted.json"]
"""

from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.replays.evidence import NAME


def evidence_files(view: ExperimentView) -> list[str]:
    """The files of evidence that exist, sorted."""
    layout, shards = view.layout, view.source_shards
    folders = [layout.filtered(shard) for shard in view.source_files.shards]
    folders += [*map(layout.signatures, shards), *map(layout.buckets, view.bucket_groups)]
    folders += [layout.clusters, layout.deduplicated, layout.split, layout.tokenizer]
    folders += [*map(layout.dataset, view.datasets), *view.rows.packed(), *view.rows.mixed()]
    folders += [*map(layout.model, view.models), layout.overlaps.parent]
    folders += [path.parent for path in view.suite_files(NAME)]
    return sorted({str(folder / NAME) for folder in folders if (folder / NAME).is_file()})
