"""Version raw archives and finished results with DVC and push them; the experiment is the profile's, or is named.

    stagecraft publish --profile local
    stagecraft publish --profile a40 --experiment qwen2.5-7b-code

Writes, to be committed to git: a pointer per archive, manifest and provenance (`data/raw/X.tar.zst.dvc`, ...) and one
pointer for all results with theirs (`data/results.dvc`). If it is interrupted, call it again.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path

import yaml

from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json
from scripts.common.known_hashes import KnownHashes
from scripts.experiment.layout import Layout, raw_archive, raw_manifest
from scripts.experiment.load import experiment_of
from scripts.experiment.reruns.causes import code_file
from scripts.experiment.reruns.provenance import (
    Index,
    Provenance,
    changed_inputs,
    first_difference,
    provenance_file,
    results_pointer,
)
from scripts.experiment.shards import has_several
from scripts.hosts.invocation import TOUCHES
from scripts.sources.tables.sources_table import sources_of

RAW = "data/raw"


def dvc(*arguments: str) -> str:
    """Run DVC, its progress on the terminal; return its stdout. Raises UserError: DVC failed; it printed why."""
    command = [sys.executable, "-m", "dvc", "--wait-for-lock", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise UserError(f"`dvc {arguments[0]}` failed: see its lines above; then publish again")
    return done.stdout


def check_remote() -> None:
    """Raises UserError: there is no default remote, or it would deliver a flipped byte unnoticed."""
    config = dict(line.split("=", 1) for line in dvc("config", "--list").splitlines())
    name = config.get("core.remote")
    if name is None:
        raise UserError("no DVC remote: `dvc remote add -d NAME URL && dvc remote modify NAME verify true`")
    if config.get(f"remote.{name}.verify", "false").lower() != "true":
        raise UserError(
            f"DVC remote {name} does not verify what it delivers; run `dvc remote modify {name} verify true`"
        )


def is_result(path: str, root: str) -> bool:
    """Whether `path` belongs to the results root, and not to another root below it: areas name its folders."""
    if not path.startswith(f"{root}/"):
        return False
    parts = Path(path).relative_to(root).parts
    return len(parts) == 1 or Path("scripts", parts[0]).is_dir()


def publish_archives(names: list[str], snakemake: list[str]) -> None:
    """Version the archives that were fetched here. From then on rule `pull` makes them, and their provenance says so.

    `--touch` lets Snakemake write that provenance itself; what it touches blindly was hashed by DVC just before.
    """
    index = Index((RAW,))
    fetched = []
    for name in names:
        made = index.of(str(raw_archive(name)))
        if made and made.rule == "fetch":
            fetched.append(name)
    if not fetched:
        return
    dvc("add", *map(str, map(raw_archive, fetched)), *map(str, map(raw_manifest, fetched)))
    targets = [str(raw_archive(name)) for name in fetched]
    touch = ["--touch", "--forcerun", "pull", "--quiet", "all"]
    command = [sys.executable, "-m", "snakemake", *targets, *snakemake, *touch]
    if subprocess.run(command, env={**os.environ, TOUCHES: "1"}).returncode:
        raise UserError(
            "Snakemake could not note that the archives are published: see its lines above; then publish again"
        )
    dvc("add", *(str(provenance_file(raw_archive(name))) for name in fetched))


def add_shard_archives(jobs: list[Provenance]) -> list[str]:
    """Version the archives that jobs fetched in shards; returns the pointers. No rule declares them: nothing reruns."""
    names = set()
    for job in jobs:
        manifest = Path(min(job.outputs))
        if job.rule == "fetch" and has_several(manifest.parent.name):
            names.update(read_json(manifest)["archives"])
    paths = []
    for name in sorted(names):
        for path in (raw_archive(name), raw_manifest(name)):
            if path.is_file():
                paths.append(str(path))
    new = [path for path in paths if not Path(f"{path}.dvc").is_file()]
    if new:
        dvc("add", *new)
    return [f"{path}.dvc" for path in paths]


def finished_jobs(root: str, archives: list[str]) -> list[Provenance]:
    """The finished jobs of an experiment, all files as the job left them. What is left out, and why, is logged."""
    index, hashes = Index(), KnownHashes()
    raw = {str(raw_archive(name)) for name in archives}
    jobs = []
    for made in index.jobs.values():
        first = next(iter(made.outputs))
        if first not in raw and not is_result(first, root):
            continue
        missing = [name for name in made.outputs if not Path(name).is_file()]
        wrong = f"{missing[0]} is missing" if missing else first_difference(made, hashes)
        if wrong:
            logging.warning(f"left out: {made.rule}: {wrong}")
        else:
            jobs.append(made)
    hashes.save()
    return consistent_jobs(jobs, hashes, root)


def consistent_jobs(jobs: list[Provenance], hashes: KnownHashes, root: str) -> list[Provenance]:
    """Those of `jobs` whose inputs are, with their present content, each other's files or files in git."""
    while True:
        made_here = set().union(*(job.files for job in jobs))
        kept = []
        for job in jobs:
            wrong = changed_inputs(job, hashes)
            for name in job.inputs:
                in_git = name.endswith(".dvc") or not name.startswith((f"{root}/", f"{RAW}/"))
                if (not in_git and name not in made_here) or not Path(name).is_file():
                    wrong.append(name)
            if wrong:
                first = next(iter(job.outputs))
                logging.warning(f"left out: {first}: its input {wrong[0]} is not what it was made from")
            else:
                kept.append(job)
        if len(kept) == len(jobs):
            return kept
        jobs = kept


def publish(root: str, archives: list[str], snakemake: list[str]) -> None:
    """Version and push these archives and the results in `root`.

    Args:
        root: the results root.
        archives: their names, `{source}-{pin}`.
        snakemake: options that name the workflow, as the profile.

    Raises:
        UserError: no remote, a run is under way, nothing is finished, or DVC failed.
    """
    check_remote()
    if any(Path(".snakemake/locks").glob("*.lock")):
        raise UserError(
            "a run is under way in this folder: publish when it has ended (if it was killed: snakemake --unlock)"
        )
    publish_archives(archives, snakemake)
    jobs = finished_jobs(root, archives)
    results, pointers = set(), []
    for job in jobs:
        first = next(iter(job.outputs))
        files = [*job.files, str(provenance_file(first))]
        if first.startswith(f"{root}/"):
            results.update(files)
        else:
            pointers += [f"{path}.dvc" for path in files]
        if job.code and (record := code_file(job.code, Layout(Path(root)).code_records)).is_file():
            results.add(str(record))
    results = sorted(results)
    pointers += add_shard_archives(jobs)
    if not results and not pointers:
        raise UserError(f"{root}: nothing finished to publish; run `snakemake --profile NAME` first")
    if results:
        # one pointer with an entry per file: exactly what is finished, and what else lies in `results` is never touched
        pointer = results_pointer(root)
        with atomic(pointer) as temporary:
            entries = {"wdir": "..", "outs": [{"path": path} for path in results]}
            temporary.write_text(yaml.safe_dump(entries, sort_keys=False))
        dvc("commit", "--force", str(pointer))
        pointers.append(str(pointer))
    dvc("push", *pointers)
    logging.info(f"published {len(results)} results and {len(pointers)} pointers; now: git add data .dvc && git commit")


def publish_experiment(profile: str, configfile: Path | None) -> None:
    """Publish what an experiment has; see `publish`."""
    path, experiment = experiment_of(profile, configfile)
    archives = [source.raw_name for source in sources_of(experiment)]
    publish(experiment.results, archives, ["--profile", profile, "--configfile", str(path)])
