"""Find files of corpus and tokens that were deleted although their manifest is still there, and make them again.

Snakemake makes a file again only when a job needs it, and then runs all that follows in the same run, training too,
even where the content comes out the same. So these files are made by a run of their own before the one that was
called: what follows then compares contents, and runs only where they changed.
"""

import os
import subprocess
import sys
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import MANIFEST
from scripts.hosts.invocation import INNER, Invocation


def missing_files(dag: ExperimentView) -> dict[str, str]:
    """The missing files of folders that have a manifest, each with the target that makes it again.

    That is the file itself, or the manifest of a folder whose rule declares nothing else, as that of a shard. A folder
    without a manifest was never made, or deleted as a whole.
    """
    layout, source_files = dag.layout, dag.source_files
    folders = [layout.history(shard) for shard in source_files.shards_of(dag.dated_sources)]
    folders += [layout.filtered(shard) for shard in source_files.shards]
    shards = [] if source_files.one_by_one else list(folders)
    folders += [layout.signatures(shard) for shard in dag.source_shards]
    folders += [layout.buckets(group) for group in dag.bucket_groups]
    folders += [layout.clusters, layout.deduplicated, layout.split] if dag.sources else []
    folders += [layout.dataset(name) for name in dag.datasets]
    folders += [layout.tokenizer, *dag.rows.packed(), *dag.rows.mixed()]
    folders += [layout.completion_tasks] if "completion" in dag.suites else []
    folders += [layout.repository_tasks] if "repository_tests" in dag.suites else []
    if dag.experiment.corpus.parquet:
        tables = [layout.parquet(table) for table in source_files.tables(dag.datasets)]
        folders += tables
        shards += tables
    missing = {}
    for folder in folders:
        if (manifest := folder / MANIFEST).is_file():
            paths = [os.path.normpath(folder / name) for name in read_json(manifest).get("files", {})]
            missing |= {path: str(manifest) if folder in shards else path for path in paths if not Path(path).is_file()}
    return missing


def make_missing(dag: ExperimentView, call: Invocation) -> None:
    """Make the missing files again, by a Snakemake with the options of this one; in a dry run say which ones.

    Raises:
        UserError: they could not be made.
    """
    if call.inner or not call.remakes or not (files := missing_files(dag)):
        return
    first = f"{next(iter(files))}{f' and {len(files) - 1} more' if len(files) > 1 else ''}"
    if call.dry_run:
        print(f"missing: {first}; a run makes them again first, and what follows only if they changed", file=sys.stderr)
        return
    print(f"missing, made again first: {first}", file=sys.stderr)
    targets = list(dict.fromkeys(files.values()))
    forced = [target for target in targets if Path(target).is_file()]  # shards
    command = [sys.executable, "-m", "snakemake", *targets, *call.options, *(["--forcerun", *forced] if forced else [])]
    if subprocess.run(command, env={**os.environ, INNER: "1"}, check=False).returncode:
        raise UserError(f"{first}: missing, and could not be made again; the lines above say why")
