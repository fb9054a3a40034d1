"""The jobs of an experiment and their states, read from outputs, logs and work folders while the jobs run or after.

Files that are being written may end in the middle of a line, so whatever cannot be parsed is skipped.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson

from scripts.common.files import read_json_or_empty
from scripts.common.text import duration
from scripts.experiment.ablation_files import compared_suites
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import (
    MANIFEST,
    Layout,
    is_published,
)
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.source_shards import SourceFiles, bucket_groups, source_shards
from scripts.experiment.suites import PROMPTED, WITHOUT_PAIRS, configured
from scripts.sources.tables.source import Source

SILENCE = 600.0  # seconds without any output after which a job counts as stopped; a step or checkpoint takes less
TAIL = 1 << 16  # bytes read of a growing file
# a rule's state is the first of these that one of its jobs is in
STATES = ["failed", "stopped", "running", "waiting", "not started", "done"]
TIME = re.compile(r"\d\d:\d\d:\d\d ")
WORK_FOLDER = re.compile(r", work in (.+)$")  # the first line that scripts/training/train.py logs
ERROR = re.compile(r"error: |fault: |[\w.]+(Error|Exception)\b")


class Job(NamedTuple):
    """A job of the workflow. `name` is what its wildcards say, or empty."""

    rule: str
    name: str
    output: Path  # exists when the job is done
    log: Path


class StageStatus(NamedTuple):
    """The progress of a training stage; values are None if not known."""

    state: str
    note: str
    step: int | None
    steps: int | None
    loss: float | None
    eval_loss: float | None
    tokens_per_second: float | None
    eta_seconds: float | None
    alert: str | None


def jobs(experiment: Experiment, sources: list[Source], results: Path) -> Iterator[Job]:
    """The jobs of an experiment, in the order of the data flow."""

    layout = Layout(results)

    def job(area: str, rule: str, output: Path, name: str = "") -> Job:
        return Job(rule, name, output, layout.log(area, rule, name))

    shards = source_shards(source.name for source in sources)
    source_files = SourceFiles({source.name: source for source in sources}, shards, layout)
    for shard, names in source_files.fetch_shards.items():
        rule = "pull" if is_published(shard) else "fetch"
        yield job("sources", rule, source_files.fetched(names)[0], shard)
    for shard in source_files.shards if experiment.corpus.split.by == "time" else ():
        yield job("sources", "history", layout.history(shard) / MANIFEST, shard)
    for shard in source_files.shards:
        yield job("corpus", "filter", layout.filtered(shard) / MANIFEST, shard)
    if sources:
        for shard in shards:
            yield job("corpus", "signatures", layout.signatures(shard) / MANIFEST, shard)
        for group in bucket_groups(shards):
            yield job("corpus", "buckets", layout.buckets(group) / MANIFEST, group)
        yield job("corpus", "clusters", layout.clusters / MANIFEST)
        yield job("corpus", "deduplicate", layout.deduplicated / MANIFEST)
        yield job("corpus", "split", layout.split / MANIFEST)
    flow = ExperimentView(experiment, {}, layout)
    stages, rows = flow.stages, flow.rows
    for name in flow.datasets:
        yield job("corpus", "compose", layout.dataset(name) / MANIFEST, name)
    if stages:
        yield job("training", "base", layout.model("base") / MANIFEST)
    yield job("tokens", "tokenizer", layout.tokenizer / MANIFEST)
    yield from (job("tokens", "pack", folder / MANIFEST, folder.name) for folder in rows.packed())
    yield from (job("tokens", "mix", folder / MANIFEST, folder.name) for folder in rows.mixed())
    if experiment.corpus.parquet:
        for table in source_files.tables(flow.datasets):
            yield job("corpus", "parquet", layout.parquet(table) / MANIFEST, table)
    yield job("report", "cards", layout.cards / "cards.json")
    if not stages:
        return
    yield from (job("training", "train", layout.model(name) / MANIFEST, name) for name in stages)
    compared = compared_suites(flow)
    suites = configured(experiment.evaluation)
    for suite in [suite for suite in suites if suite != "human"]:
        models = ["base", *(experiment.stages if suite in WITHOUT_PAIRS else flow.own_models)]
        for name in dict.fromkeys([*models, *(flow.arms.scored if suite in compared else ())]):
            yield job("evaluation", suite, layout.suite(suite, name) / "scores.json", name)
    if any(suite in PROMPTED for suite in suites):
        yield job("evaluation", "contamination", layout.overlaps)
    if "human" in suites:
        yield job("evaluation", "sheet", layout.sheet / "key.json")
        yield job("evaluation", "human", layout.agreement)
    yield job("evaluation", "gate", layout.gate)
    if experiment.ablate:
        yield job("report", "ablation", layout.ablation / "ablation.json")
    yield job("report", "plots", layout.picture("gates"))
    yield job("report", "page", layout.page)
    yield job("report", "scores", layout.scores)
    yield job("report", "verdict", layout.evaluation)


def read_lines(path: Path, end: bool = True) -> list[str]:
    """The last lines of a text file, or its first ones; none if it does not exist."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL) if end else 0)
            return file.read(TAIL).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def read_last_records(path: Path) -> list[dict]:
    """The last JSON objects of a JSON lines file."""
    records = []
    for line in read_lines(path):
        try:
            records.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue  # half written, or cut at TAIL
    return [record for record in records if isinstance(record, dict)]


def modified(path: Path) -> float:
    """When a file was last written (seconds since 1970); 0 if it does not exist."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def state_of(job: Job, other_files: list[Path], now: float) -> tuple[str, str]:
    """(one of STATES, a note). `other_files`: files besides the log that the job writes while it runs."""
    if job.output.exists():
        return "done", ""
    last_written = max(map(modified, [job.log, *other_files]))
    if not last_written:
        return "not started", ""
    log = read_lines(job.log)
    timed = [number for number, line in enumerate(log) if TIME.match(line)]
    last = TIME.sub("", log[timed[-1]]) if timed else ""
    # an error before a line with a time was not fatal: the job went on
    errors = [line for line in log[timed[-1] + 1 if timed else 0 :] if ERROR.match(line)]
    if errors:
        error = next((line for line in errors if line.startswith(("error: ", "fault: "))), errors[-1])
        return "stopped" if "stopped by SIGTERM" in error else "failed", error
    if now - last_written > SILENCE:
        return "stopped", f"no output for {duration(now - last_written)}{f'; {last}' if last else ''}"
    return ("waiting" if last.startswith("gpus: waiting") else "running"), last


def stage_status(job: Job, results: Path, now: float) -> StageStatus:
    """The progress of the stage that `job` trains."""
    # other settings may have left other work folders, so the log's counts
    named = [match[1] for match in map(WORK_FOLDER.search, read_lines(job.log, end=False)) if match]
    work = Layout(results).work(job.name) / (Path(named[0]).name if named else "")
    state, note = state_of(job, [work / "progress.json", work / "metrics.jsonl"], now)
    progress, done = read_json_or_empty(work / "progress.json"), state == "done"
    folder = job.output.parent if done else work
    summary = read_json_or_empty(folder / "summary.json")
    logged, alerts = read_last_records(folder / "metrics.jsonl"), read_last_records(folder / "alerts.jsonl")

    def last(name: str):
        return next((record[name] for record in reversed(logged) if record.get(name) is not None), None)

    return StageStatus(
        state=state,
        note="" if state == "running" and progress else note,
        step=summary.get("steps") or last("step") or progress.get("step"),
        steps=summary.get("steps") or progress.get("steps"),
        loss=last("loss"),
        eval_loss=summary.get("eval_loss") or last("eval_loss"),
        tokens_per_second=summary.get("tokens_per_second") or last("tokens_per_second"),
        eta_seconds=progress.get("eta_seconds") if state == "running" else None,
        alert=f"step {alerts[-1].get('step')}: {alerts[-1].get('text')}" if alerts else None,
    )
