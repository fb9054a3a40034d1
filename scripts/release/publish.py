"""Version raw archives and finished results with DVC and push them; the experiment is the profile's, or is named.

    python -m scripts.release.publish --profile local
    python -m scripts.release.publish --profile a40 --configfile config/experiments/qwen2.5-7b-code.yaml

Writes, to be committed to git: a pointer per archive and manifest (`data/raw/X.tar.zst.dvc`, `data/raw/X.json.dvc`),
one pointer for all results (`data/results.dvc`), and how they were made (`data/results.json`, see provenance.py). If it
is interrupted, call it again.
"""

import base64
import json
import logging
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

import yaml

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json
from scripts.common.shard_reuse import folders_in
from scripts.experiment.layout import raw_archive, raw_manifest
from scripts.experiment.load import experiment_of, experiment_parser
from scripts.experiment.provenance import (
    FORMAT,
    UNTRUSTED,
    Job,
    difference,
    hash_files,
    mtime,
    open_records,
    provenance_path,
    write_provenance,
)
from scripts.experiment.source_shards import has_several
from scripts.sources.tables.sources_table import sources_of

RAW = "data/raw"


def dvc(*arguments: str) -> str:
    """Run DVC, its progress on the terminal; return its stdout.

    Raises:
        UserError: DVC failed; it printed why.
    """
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


def recorded_paths(folder: Path = Path(".snakemake/metadata")) -> list[str]:
    """All outputs that Snakemake has a record of. A record's name is the path in base64, split where it is too long."""
    names = []
    for parent, _, files in os.walk(folder):
        folders = "".join(part.removeprefix("@") for part in Path(parent).relative_to(folder).parts)
        names += [base64.urlsafe_b64decode(folders + file).decode() for file in files]
    return sorted(names)


def is_result(path: str, root: str) -> bool:
    """Whether `path` belongs to the results root, and not to another root below it: areas name its folders."""
    if not path.startswith(f"{root}/"):
        return False
    parts = Path(path).relative_to(root).parts
    return len(parts) == 1 or Path("scripts", parts[0]).is_dir()


def publish_archives(names: list[str], snakemake: list[str]) -> None:
    """Version the archives that were fetched here. From then on rule `pull` makes them, and their records say so.

    `--touch` lets Snakemake write those records itself; what it touches blindly was hashed by DVC just before.
    """
    records = open_records()
    archives = [[str(raw_archive(name)), str(raw_manifest(name))] for name in names]

    def is_fetched(path: str) -> bool:
        record = records._read_record(path)
        return bool(record) and record.rule == "fetch" and record.endtime == mtime(path)

    fetched = [files for files in archives if all(is_fetched(path) for path in files)]
    if not fetched:
        return
    dvc("add", *(path for files in fetched for path in files))
    targets = [files[0] for files in fetched]
    touch = ["--touch", "--forcerun", "pull", "--quiet", "all"]
    command = [sys.executable, "-m", "snakemake", *targets, *snakemake, *touch]
    if subprocess.run(command).returncode:
        raise UserError(
            "Snakemake could not note that the archives are published: see its lines above; then publish again"
        )


def recorded_jobs(paths: list[str]) -> list[Job]:
    """The jobs that made `paths`, by Snakemake's records. Hashes that are not in them, as of outputs, are empty."""
    records = open_records()
    jobs = {}
    for path in paths:
        record = records._read_record(path)
        if record is None or record.record_format_version != FORMAT or record.code == UNTRUSTED:
            continue
        hashes = {name: (record.input_checksums or {}).get(name, "").removeprefix("sha256:") for name in record.input}
        job = Job(record.rule, record.code, record.params, record.log, record.software_stack_hash, hashes, {}, {})
        # outputs of one job have one record
        jobs.setdefault(json.dumps(asdict(job), sort_keys=True), job).outputs[path] = ""
    return list(jobs.values())


def unfinished(job: Job, records) -> str | None:
    """Why the outputs are not what the job made; None where they are."""
    for path in sorted(job.outputs):
        if records._filter_incomplete_keys([path]):
            return f"{path} is unfinished"
        if mtime(path) is None:
            return f"{path} is missing"
        if mtime(path) != records._read_record(path).endtime:
            return f"{path} was changed after it was made"
    return None


def files_of_sources(manifest: Path) -> list[Path]:
    """The files in the folders of the sources that a shard's manifest lists."""
    return [file for folder in folders_in(manifest) for file in folder.iterdir()]


def add_shard_archives(jobs: list[Job]) -> list[str]:
    """Version the archives that jobs fetched in shards; returns the pointers. No rule declares them: nothing reruns."""
    names = set()
    for job in jobs:
        manifest = Path(min(job.outputs))
        if job.rule == "fetch" and has_several(manifest.parent.name):
            names.update(read_json(manifest)["archives"])
    paths = [str(path) for name in sorted(names) for path in (raw_archive(name), raw_manifest(name)) if path.is_file()]
    if new := [path for path in paths if not Path(f"{path}.dvc").is_file()]:
        dvc("add", *new)
    return [f"{path}.dvc" for path in paths]


def files_beside(job: Job, owners: dict[Path, set[int]]) -> list[str]:
    """The undeclared files in the folders that hold the outputs of this job alone, and those of a shard's sources."""
    folders = {Path(path).parent for path in job.outputs}
    files = {file for folder in folders if owners[folder] == {id(job)} for file in folder.rglob("*")}
    manifest = Path(min(job.outputs))
    if job.rule in ("filter", "history") and has_several(manifest.parent.name):
        files.update(files_of_sources(manifest))
    return sorted(
        str(file) for file in files if file.is_file() and not file.name.startswith(".") and str(file) not in job.outputs
    )


def finished_jobs(root: str, archives: list[str]) -> list[Job]:
    """The finished jobs of an experiment, hashed. What is left out, and why, is logged."""
    records = open_records()
    raw = {str(path) for name in archives for path in (raw_archive(name), raw_manifest(name))}
    candidates = recorded_jobs([path for path in recorded_paths() if path in raw or is_result(path, root)])
    owners = defaultdict(set)
    for job in candidates:
        for path in job.outputs:
            for parent in Path(path).parents:
                owners[parent].add(id(job))
    for folder in (Path(root), Path(RAW)):
        owners[folder].add(0)  # these belong to no single job

    jobs = []
    for job in candidates:
        if reason := unfinished(job, records):
            logging.warning(f"left out: {job.rule}: {reason}")
        else:
            job.beside = dict.fromkeys(files_beside(job, owners), "")
            jobs.append(job)
    present = hash_files(path for job in jobs for path in job.outputs | job.beside | job.inputs)
    for job in jobs:
        job.outputs = {path: present[path] for path in job.outputs}
        job.beside = {path: present[path] for path in job.beside}
        # inputs beyond `max-checksum-file-size` were not hashed when the job ran
        job.inputs = {path: recorded or present.get(path, "") for path, recorded in job.inputs.items()}

    return consistent_jobs(jobs, present, root)


def consistent_jobs(jobs: list[Job], present: dict[str, str], root: str) -> list[Job]:
    """Those of `jobs` whose inputs are, with their present content, each other's outputs or files in git."""
    in_git = {path for path in present if path.endswith(".dvc") or not path.startswith((f"{root}/", f"{RAW}/"))}
    while True:
        known = in_git.union(*(job.outputs | job.beside for job in jobs))
        hashes = {path: digest for path, digest in present.items() if path in known}
        reasons = [difference(job.inputs, hashes) for job in jobs]
        for job, reason in zip(jobs, reasons, strict=True):
            if reason:
                logging.warning(f"left out: {min(job.outputs)}: its input {reason}")
        if not any(reasons):
            return jobs
        jobs = [job for job, reason in zip(jobs, reasons, strict=True) if not reason]


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
    results = sorted(path for job in jobs for path in job.outputs | job.beside if path.startswith(f"{root}/"))
    pointers = [f"{path}.dvc" for job in jobs for path in job.outputs if not path.startswith(f"{root}/")]
    pointers += add_shard_archives(jobs)
    if not results and not pointers:
        raise UserError(f"{root}: nothing finished to publish; run `snakemake --profile NAME` first")
    if results:
        # one pointer with an entry per file: exactly what is finished, and what else lies in `results` is never touched
        pointer = provenance_path(root).with_suffix(".dvc")
        with atomic(pointer) as temporary:
            entries = {"wdir": "..", "outs": [{"path": path} for path in results]}
            temporary.write_text(yaml.safe_dump(entries, sort_keys=False))
        dvc("commit", "--force", str(pointer))
        pointers.append(str(pointer))
    write_provenance(provenance_path(root), jobs)
    dvc("push", *pointers)
    logging.info(f"published {len(results)} results and {len(pointers)} pointers; now: git add data .dvc && git commit")


def main() -> None:
    arguments = experiment_parser(__doc__)
    args = arguments.parse_args()
    configfile, experiment = experiment_of(args.profile, args.configfile)
    archives = [source.raw_name for source in sources_of(experiment)]
    publish(experiment.results, archives, ["--profile", args.profile, "--configfile", str(configfile)])


if __name__ == "__main__":
    run(main)
