"""List what contains a source and the jobs to run without it; with --apply, remove it and certify that.

    stagecraft forget click --profile local
    stagecraft forget click --profile local --apply

With --apply the source's row leaves the table, what stood on it is made again, the shards are searched for its
documents, its archive, filtered documents and old checkpoints are removed, and results/release/forget/SOURCE/ gets
certificate.json and certificate.md. If it is interrupted, call it again.
"""

import logging
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import yaml

from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json, write_json
from scripts.common.text import duration
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import Layout, raw_archive, raw_manifest
from scripts.experiment.load import experiment_of
from scripts.experiment.provenance import Index
from scripts.hosts.job_graph import Job, dry_run, in_order
from scripts.release.forgetting.certificate import Evidence, check_gone, collect, write_certificate
from scripts.release.forgetting.lineage import lineage
from scripts.sources.tables.source import Source
from scripts.sources.tables.sources_table import read_sources, sources_of


class PlannedJob(NamedTuple):
    """A job that would run; `seconds` is what it took the last time, None where that is not known."""

    name: str
    seconds: float | None


def without_row(table: Path, source: str) -> str:
    """The text of a sources table without a source, all other bytes as they are.

    Raises:
        UserError: the source is not in it, or it is the only one.
    """
    lines = table.read_text(encoding="utf-8-sig").splitlines(keepends=True)
    column = lines[0].rstrip("\r\n").split("\t").index("name")
    kept = [line for line in lines if line.rstrip("\r\n").split("\t")[column : column + 1] != [source]]
    if len(kept) == len(lines):
        known = ", ".join(line.split("\t")[column] for line in lines[1:] if line.strip())
        raise UserError(f"{source}: no such source in {table}; known: {known:.300}")
    if not any(line.strip() for line in kept[1:]):
        raise UserError(f"{source}: the only source in {table}; an experiment without sources has its own data")
    return "".join(kept)


def jobs_without(view: ExperimentView, profile: str, configfile: Path, table: str) -> list[PlannedJob]:
    """The jobs that Snakemake would run with this text as the sources table, in the order of the run.

    Raises:
        UserError: the dry run failed; its own line is in the message.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sources.tsv").write_text(table)
        overlay = Path(folder, "overlay.yaml")
        overlay.write_text(yaml.safe_dump({"sources": {"table": f"{folder}/sources.tsv"}}))
        dag = dry_run(profile, configfile, overlay).dag
        records = [record for job, record in in_order(dag).items() if dag.needrun(job)]
    index = Index()
    return [PlannedJob(record.title, seconds_of(record, index, view)) for record in records]


def seconds_of(job: Job, index: Index, view: ExperimentView) -> float | None:
    """What a job took the last time, or what its tokens would take; None where neither is known."""
    if made := index.of(job.outputs[0]):
        return made.ended - made.started
    return training_seconds(view, job.name) if job.rule == "train" else None


def training_seconds(view: ExperimentView, stage: str) -> float | None:
    """The tokens of a stage's plan by the rate of its last run; None where one of them is not there."""
    plan, summary = view.layout.plan(stage), view.layout.model(stage) / "summary.json"
    if not (plan.is_file() and summary.is_file()):
        return None
    tokens, rate = read_json(plan).get("tokens"), read_json(summary).get("tokens_per_second")
    return tokens / rate if tokens and rate else None


def report(view: ExperimentView, source: str, jobs: list[PlannedJob]) -> list[str]:
    """What contains the source, what must run again and what that took the last time."""
    known = [job.seconds for job in jobs if job.seconds is not None]
    lines = [f"{source} in experiment {view.experiment.experiment}:", *lineage(view, source).lines(), ""]
    lines.append(f"must run again: {len(jobs)} jobs, {duration(sum(known))} the last time, one after the other")
    for job in sorted(jobs, key=lambda job: -(job.seconds or 0)):
        lines.append(f"  {job.name}: {'not measured' if job.seconds is None else duration(job.seconds)}")
    return lines


def remove_row(table: Path, source: str) -> None:
    """Take a source out of its table."""
    text = without_row(table, source)
    with atomic(table) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_files(view: ExperimentView, evidence: Evidence) -> list[str]:
    """Remove the source's archive, its filtered documents and the checkpoints of models that held it.

    Returns:
        Where copies may still lie, for the certificate.
    """
    source, remains = evidence.source, []
    pointers = [Path(f"{path(source.raw_name)}.dvc") for path in (raw_archive, raw_manifest)]
    users = [str(path) for path in sorted(Path("config").rglob("*.tsv")) if source.pin in path.read_text()]
    if users:
        remains.append(f"{raw_archive(source.raw_name)}: kept, as {', '.join(users)} names it")
    else:
        if any(path.is_file() for path in pointers) or evidence.lineage.published:
            remains.append("DVC's cache and remote, for what was published: commit, publish, then `dvc gc --cloud`")
        for path in (raw_archive(source.raw_name), raw_manifest(source.raw_name), *pointers):
            path.unlink(missing_ok=True)
    folders = [view.layout.filtered(source.name), view.layout.history(source.name)]
    for folder in (*folders, *map(Path, evidence.checkpoints)):
        shutil.rmtree(folder, ignore_errors=True)
    roots = [root for root in evidence.lineage.published if root != str(view.layout.results)]
    remains += [f"{root}: published results of another experiment that hold it" for root in roots]
    if view.models and not view.scratch:
        base = view.experiment.training.base.model
        remains.append(f"the base model {base}: what it was trained on is not known here")
    remains.append("the history of git: the source's name and pin, none of its text; copies that others pulled")
    return remains


def forget(
    view: ExperimentView, source: Source, table: Path, jobs: list[PlannedJob], rerun: Callable[[], None]
) -> Path:
    """Forget a source; returns the path of the certificate for people.

    Args:
        view: of the experiment with the source.
        jobs: what must run again.
        rerun: makes the results again with the table as it is then.

    Raises:
        UserError: the source was not filtered here, the rerun failed, or something still holds the source.
    """
    pending = view.layout.forgotten(source.name) / "pending.json"
    if not pending.is_file():
        write_json(pending, collect(view, source, [job.name for job in jobs]).model_dump(mode="json"))
    evidence = Evidence.model_validate(read_json(pending))
    if source.name in {row.name for row in read_sources(table)}:
        remove_row(table, source.name)
    rerun()
    after = check_gone(view, source.name)
    path = write_certificate(view, evidence, after, remove_files(view, evidence))
    pending.unlink()
    return path


def snakemake(target: str, options: list[str]) -> None:
    """Bring `target` up to date.

    Raises:
        UserError: a job failed; its lines are above.
    """
    command = [sys.executable, "-m", "snakemake", target, *options]
    if subprocess.run(command, check=False).returncode:
        raise UserError("the run without the source failed: see the lines above; then run this again")


def forget_source(profile: str, configfile: Path | None, name: str, apply: bool) -> None:
    """Print what a source is in and what must run again without it; with `apply`, forget it.

    Raises:
        UserError: the experiment has no such source, or see `forget`.
    """
    path, experiment = experiment_of(profile, configfile)
    layout = Layout(Path(experiment.results))
    sources = {source.name: source for source in sources_of(experiment)}
    options = ["--profile", profile, "--configfile", str(path)]
    table = Path(experiment.sources.table) if experiment.sources else None
    pending = layout.forgotten(name) / "pending.json"
    if name not in sources and pending.is_file() and apply:  # an earlier call was interrupted
        evidence = Evidence.model_validate(read_json(pending))
        source, jobs = evidence.source, []
    elif table is None:
        raise UserError(f"{path}: no `sources`, so no source to forget; its data are your own files")
    else:
        text = without_row(table, name)
        source, view = sources[name], ExperimentView(experiment, sources, layout)
        jobs = jobs_without(view, profile, path, text)
        print("\n".join(report(view, name, jobs)))
    if apply:
        view = ExperimentView(experiment, {**sources, source.name: source}, layout)
        certificate = forget(view, source, table, jobs, lambda: snakemake(view.final_target, options))
        logging.info(f"{certificate}: written; now commit {table}")
