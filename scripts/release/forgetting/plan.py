"""The jobs that must run again without a source, from Snakemake's dry run, and how long each took the last time.

jobs = jobs_without(options, table)
jobs[0].name, jobs[0].seconds      # "filter click", 3.2
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import yaml

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.provenance import open_records


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
        raise UserError(f"SOURCE={source}: not in {table}; known: {known:.300}")
    if not any(line.strip() for line in kept[1:]):
        raise UserError(f"SOURCE={source}: the only source in {table}; an experiment without sources has its own data")
    return "".join(kept)


def jobs_without(dag: ExperimentView, options: list[str], table: str) -> list[PlannedJob]:
    """The jobs that Snakemake would run with this text as the sources table.

    Args:
        options: of Snakemake, with the experiment's file as the last one.

    Raises:
        UserError: the dry run failed; its own line is in the message.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sources.tsv").write_text(table)
        overlay = Path(folder, "overlay.yaml")
        overlay.write_text(yaml.safe_dump({"sources": {"table": f"{folder}/sources.tsv"}}))
        command = [sys.executable, "-m", "snakemake", "-n", dag.final_target, *options, str(overlay)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()][-1]
        raise UserError(f"the dry run without the source failed: {last}")
    records = open_records()
    blocks = re.findall(r"^(?:local)?rule (\w+):\n((?: {4}.*\n)*)", done.stdout + done.stderr, re.MULTILINE)
    return [planned_job(rule, body, records, dag) for rule, body in blocks]


def planned_job(rule: str, body: str, records, dag: ExperimentView) -> PlannedJob:
    """A job as the dry run prints it."""
    fields = dict(re.findall(r"^ {4}(\w+): (.*)$", body, re.MULTILINE))
    wildcards = re.findall(r"=([^,]+)", fields.get("wildcards", ""))
    record = records._read_record(fields.get("output", "").split(", ")[0])
    seconds = record.endtime - record.starttime if record and record.starttime and record.endtime else None
    if seconds is None and rule.startswith("train"):
        seconds = training_seconds(dag, wildcards[0])
    return PlannedJob(" ".join([rule, *wildcards]), seconds)


def training_seconds(dag: ExperimentView, stage: str) -> float | None:
    """The tokens of a stage's plan by the rate of its last run; None where one of them is not there."""
    plan, summary = dag.layout.plan(stage), dag.layout.model(stage) / "summary.json"
    if not (plan.is_file() and summary.is_file()):
        return None
    tokens, rate = read_json(plan).get("tokens"), read_json(summary).get("tokens_per_second")
    return tokens / rate if tokens and rate else None
