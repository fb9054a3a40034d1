"""Find files of the data that were deleted although their manifest is still there, and make them again.

Snakemake makes a file again only when a job needs it, and then runs all that follows in the same run, training too,
even where the content comes out the same. So these files are made by a run of their own before the one that was
called: what follows then compares contents, and runs only where they changed.
"""

import os
import subprocess
import sys
from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import MANIFEST
from scripts.experiment.provenance import Index
from scripts.hosts.invocation import INNER, Invocation
from scripts.hosts.job_graph import Job, key_of, read_jobs


def lost_files(results: Path) -> dict[str, str]:
    """The missing files of jobs whose manifest is there, each with the target that makes it again.

    That is the file itself, or the manifest where the job's rule declares nothing else, as that of a shard. A folder
    without a manifest was never made, or deleted as a whole.
    """
    lost = {}
    for made in Index((str(results),)).jobs.values():
        manifests = [path for path in made.outputs if Path(path).name == MANIFEST and Path(path).is_file()]
        if manifests:
            missing = [path for path in made.files if not Path(path).is_file()]
            lost |= {path: path if path in made.outputs else manifests[0] for path in missing}
    return lost


def run_inner(*words: str, **options) -> int:
    """The exit code of a Snakemake that leaves what the one that was called does before its jobs."""
    command = [sys.executable, "-m", "snakemake", *words]
    return subprocess.run(command, env={**os.environ, INNER: "1"}, check=False, **options).returncode


def jobs_of_experiment(view: ExperimentView, call: Invocation) -> list[Job]:
    """The jobs of the whole experiment, of which a dry run tells where none was written."""
    key, results = key_of(view.experiment, view.sources.values()), view.layout.results
    jobs = read_jobs(key, results)
    if jobs is None:
        run_inner(
            str(view.layout.evaluation), "-n", *call.options, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        jobs = read_jobs(key, results)
    return jobs or []  # where it failed, the Snakemake that was called says why


def make_lost(view: ExperimentView, call: Invocation) -> None:
    """Make the lost files of this experiment's data again, by a Snakemake with the options of this one.

    In a dry run they are only named. Models are trained again only when a job needs them.

    Raises:
        UserError: they could not be made.
    """
    if call.inner or not call.remakes:
        return
    lost = lost_files(view.layout.results)
    if not lost:
        return
    data = []
    for job in jobs_of_experiment(view, call):
        if job.area != "training":
            data += job.outputs
    targets = sorted({*lost.values()}.intersection(data))
    files = sorted(path for path, target in lost.items() if target in targets)
    if not files:
        return
    first = f"{files[0]}{f' and {len(files) - 1} more' if len(files) > 1 else ''}"
    if call.dry_run:
        print(f"missing: {first}; a run makes them again first, and what follows only if they changed", file=sys.stderr)
        return
    print(f"missing, made again first: {first}", file=sys.stderr)
    forced = [target for target in targets if Path(target).is_file()]  # shards
    if run_inner(*targets, *call.options, *(["--forcerun", *forced] if forced else [])):
        raise UserError(f"{first}: missing, and could not be made again; the lines above say why")
