"""The evidence that `make accept` left in the folders of an experiment's outputs.

evidence_files(dag)      # ["results/corpus/filter/click/accepted.json"]
"""

from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.replays.evidence import NAME


def evidence_files(dag: ExperimentView) -> list[str]:
    """The files of evidence that exist, sorted."""
    layout, shards = dag.layout, dag.source_shards
    folders = [layout.filtered(shard) for shard in dag.source_files.shards]
    folders += [*map(layout.signatures, shards), *map(layout.buckets, dag.bucket_groups)]
    folders += [layout.clusters, layout.deduplicated, layout.split, layout.tokenizer]
    folders += [*map(layout.dataset, dag.datasets), *dag.rows.packed(), *dag.rows.mixed()]
    folders += [*map(layout.model, dag.models), layout.overlaps.parent]
    folders += [path.parent for path in dag.suite_files(NAME)]
    return sorted({str(folder / NAME) for folder in folders if (folder / NAME).is_file()})
