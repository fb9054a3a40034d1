"""Files of the data path that were deleted although the manifest beside them names them.

Snakemake makes a file again only when a job needs it, and then runs all that follows in the same run, training too,
even where the content comes out the same. So these files are made by a run of their own before the one that was
called: what follows then compares contents, and runs only where they changed.
"""

import os
import subprocess
import sys

from scripts.common.cli import UserError
from scripts.common.files import read_json
from scripts.experiment.dag import Dag
from scripts.experiment.layout import MANIFEST
from scripts.hosts.invocation import INNER, Invocation


def missing_files(dag: Dag) -> list[str]:
    """The missing files of folders that have a manifest; a folder without one was never made, or deleted as a whole."""
    layout = dag.layout
    folders = [layout.history(source) for source in dag.dated_sources]
    folders += [layout.filtered(source) for source in dag.sources]
    folders += [layout.signatures(shard) for shard in dag.source_shards]
    folders += [layout.deduplicated, layout.split] if dag.sources else []
    folders += [layout.dataset(name) for name in dag.datasets]
    folders += [layout.tokenizer, *dag.rows.packed(), *dag.rows.mixed()]
    folders += [layout.completion_tasks] if "completion" in dag.suites else []
    folders += [layout.repository_tasks] if "repository_tests" in dag.suites else []
    return [
        str(folder / name)
        for folder in folders
        if (folder / MANIFEST).is_file()
        for name in read_json(folder / MANIFEST).get("files", {})
        if not (folder / name).is_file()
    ]


def make_missing(dag: Dag, call: Invocation) -> None:
    """Make the missing files again, by a Snakemake with the options of this one; in a dry run say which ones.

    Raises:
        UserError: they could not be made.
    """
    if call.inner or not call.remakes or not (files := missing_files(dag)):
        return
    first = f"{files[0]}{f' and {len(files) - 1} more' if len(files) > 1 else ''}"
    if call.dry_run:
        print(f"missing: {first}; a run makes them again first, and what follows only if they changed", file=sys.stderr)
        return
    print(f"missing, made again first: {first}", file=sys.stderr)
    command = [sys.executable, "-m", "snakemake", *files, *call.options]
    if subprocess.run(command, env={**os.environ, INNER: "1"}, check=False).returncode:
        raise UserError(f"{first}: missing, and could not be made again; the lines above say why")
