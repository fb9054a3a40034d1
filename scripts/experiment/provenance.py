"""How each published result was made, so that Snakemake trusts what `dvc pull` delivered, and only that.

`data/results.json` (of an experiment whose root is `results/x`: `data/results+x.json`) is committed to git. It lists
the finished jobs: Snakemake's record of each (rule, code, params, inputs), and the sha256 of its outputs, of its
inputs and of the files beside its outputs; and the records of their code (scripts/experiment/code_records.py). After a
clone Snakemake has no records, treats every existing file as done and does not notice changed settings. So the
Snakefile calls `restore` first: a job whose files all have the published hashes gets its records back and its outputs
one equal mtime; any other gets a record that matches no rule, so Snakemake runs it and all that depends on it again.
Nothing is deleted.

A record whose `endtime` is the mtime of its file belongs to that file (Snakemake writes it so): then there is nothing
to hash. A record without `starttime` was restored, one with it was written by a run in this checkout.
"""

import hashlib
import json
import os
import shlex
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import snakemake
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from scripts.common.errors import UserError
from scripts.common.files import read_json, sha256_file, write_json
from scripts.experiment.code_records import CodeRecord, codes_in, read_code, write_code
from scripts.experiment.dvc_cache import repair_command

SNAKEMAKE, FORMAT = "9.27.", 6
UNTRUSTED = "(not what was published)"

NO_EXTRA = ConfigDict(extra="forbid")
Hashes = dict[str, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]]


@dataclass
class Job:
    """A finished job. Paths are relative to the repository, hashes are hex sha256.

    `beside` are files in the folder of the outputs that no rule declares, as a model's configuration.
    """

    __pydantic_config__ = NO_EXTRA

    rule: str
    code: str | None
    params: list[str]
    log: list[str]
    software: str
    inputs: Hashes
    outputs: Annotated[Hashes, Field(min_length=1)]
    beside: Hashes


@dataclass
class Provenance:
    """The content of a provenance file; checked only where one is read."""

    __pydantic_config__ = NO_EXTRA

    record_format_version: Literal[6]
    jobs: list[Job]
    codes: dict[str, CodeRecord] = field(default_factory=dict)


def provenance_path(root: str) -> Path:
    """The provenance file of the results root `root`; no root has a `+` in its name, so no two share a file."""
    return Path("data", f"{root.replace('/', '+')}.json")


def write_provenance(path: Path, jobs: list[Job]) -> None:
    """Write `jobs`, sorted by output, and the records of their code: equal jobs give equal bytes."""
    entries = [asdict(job) for job in sorted(jobs, key=lambda job: min(job.outputs))]
    codes = {code: read_code(code) for job in jobs for code in codes_in(job.params)}
    known = {code: asdict(record) for code, record in codes.items() if record}
    write_json(path, {"record_format_version": FORMAT, "jobs": entries, "codes": known})


def read_provenance(path: Path) -> Provenance:
    """The jobs in a provenance file, and the records of their code.

    Raises:
        UserError: it is not JSON, or is not what `write_provenance` writes.
    """
    remedy = f"restore it from git: git checkout {path}"
    try:
        return TypeAdapter(Provenance).validate_python(read_json(path))
    except UserError as error:
        raise UserError(f"{error}; {remedy}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "top level"
        raise UserError(f"{path}: {key}: {first['msg']:.200}; {remedy}") from error


def open_records():
    """Snakemake's own reader and writer of `.snakemake/metadata` (a FilePersistence).

    Raises:
        UserError: this Snakemake may lay out its records in another way.
    """
    if snakemake.__version__.startswith(SNAKEMAKE):
        from snakemake.persistence import RECORD_FORMAT_VERSION
        from snakemake.persistence.file import FilePersistence

        if RECORD_FORMAT_VERSION == FORMAT:
            return FilePersistence()
    raise UserError(
        f"Snakemake {snakemake.__version__}: results are published and restored with {SNAKEMAKE}x and its record format"
        f" {FORMAT}; install the versions of requirements.lock"
    )


def mtime(path: str) -> float | None:
    """The modification time as Snakemake's records hold it; None where there is no such file."""
    try:
        return os.stat(path).st_mtime  # noqa: PTH116 (the very call of Snakemake: floats are compared for equality)
    except FileNotFoundError:
        return None


def hash_files(paths: Iterable[str]) -> dict[str, str]:
    """path → sha256 of those of `paths` that exist."""
    paths = sorted({path for path in paths if Path(path).is_file()})
    size = sum(Path(path).stat().st_size for path in paths)
    if size > 1e9:
        print(f"hashing {len(paths)} files, {size / 1e9:.1f} GB", file=sys.stderr)
    with ThreadPoolExecutor() as pool:  # hashlib lets go of the interpreter lock
        return dict(zip(paths, pool.map(lambda path: sha256_file(Path(path)), paths), strict=True))


def is_settled(job: Job, records) -> bool:
    """Whether there is nothing to restore: no output exists, or Snakemake has a record for each that does."""
    if not any(Path(path).is_file() for path in job.outputs) or records._filter_incomplete_keys(job.outputs):
        return True  # an output marked incomplete is being written right now, or was when its run was killed

    def has_own_record(path: str) -> bool:
        record = records._read_record(path)
        return record is not None and mtime(path) in (None, record.endtime)

    return all(has_own_record(path) for path in job.outputs)


def differing(recorded: dict[str, str], present: dict[str, str]) -> list[str]:
    """The files whose hash is not the recorded one, missing ones included."""
    return [path for path, digest in sorted(recorded.items()) if present.get(path) != digest]


def difference(recorded: dict[str, str], present: dict[str, str]) -> str | None:
    """What is wrong with the first file whose hash is not the recorded one; None where all agree."""
    first = next(iter(differing(recorded, present)), None)
    return first and f"{first} {'has another content' if first in present else 'is missing'}"


def write_records(job: Job, records, trusted: bool, now: float) -> None:
    """Give the job's outputs the published record, or, if not trusted, one that matches no rule."""
    from snakemake.persistence import MetadataRecord

    # Snakemake's report groups the outputs of one job by this number
    number = int(hashlib.sha256(json.dumps(asdict(job), sort_keys=True).encode()).hexdigest()[:15], 16)
    for path in job.outputs:
        if trusted:
            os.utime(path, (now, now))
    for path in job.outputs:
        record = MetadataRecord(
            rule=job.rule,
            log=job.log,
            code=job.code if trusted else UNTRUSTED,
            params=job.params if trusted else [],
            input=sorted(job.inputs) if trusted else [],
            input_checksums={name: f"sha256:{digest}" for name, digest in job.inputs.items()} if trusted else {},
            software_stack_hash=job.software,
            record_format_version=FORMAT,
            job_hash=number,
            incomplete=False,
            endtime=mtime(path),
        )
        records._write_record(path, record)


def restore(workflow, root: str) -> None:
    """Give Snakemake its records for the published results that lie in `root`, at the start of a workflow.

    All restored files get one mtime, now: equal, so that no input is newer than its output, and not older than a result
    made here from another version of it.

    Raises:
        UserError: the provenance file is broken, or this Snakemake keeps its records in another way.
    """
    path = provenance_path(root)
    if not workflow.is_main_process or not path.is_file():
        return
    if workflow.workflow_settings.persistence_backend.name != "FILE":
        raise UserError(
            "--persistence-backend: published results are restored into Snakemake's file backend; drop the option"
        )
    records = open_records()
    published = read_provenance(path)
    jobs = [job for job in published.jobs if not is_settled(job, records)]
    if not jobs:
        return
    for code, record in published.codes.items():
        if read_code(code) is None:
            write_code(code, record)
    present = hash_files(name for job in jobs for name in job.outputs | job.beside | job.inputs)
    now = time.time()
    restored = 0
    for job in jobs:
        changed = difference(job.outputs | job.beside, present)
        difference_found = changed or difference(job.inputs, present)
        made_here = any((record := records._read_record(name)) and record.starttime for name in job.outputs)
        if changed and made_here:
            continue  # not the published result but one of this checkout, touched or copied: its own record decides
        write_records(job, records, trusted=not difference_found, now=now)
        if difference_found:
            repair = repair_command(path.with_suffix(".dvc"), differing(job.outputs | job.beside, present))
            if repair and not difference(job.outputs, present):  # else a new mtime of an output shows the change
                repair += f" && touch {shlex.quote(min(job.outputs))}"
            remedy = f"; to download the published files instead: `{repair}`" if repair else ""
            print(f"{path}: {job.rule} will run again: {difference_found}{remedy}", file=sys.stderr)
        restored += not difference_found
    print(f"{path}: records of {restored} of {len(jobs)} pulled jobs restored", file=sys.stderr)
