"""Show the state of an experiment's jobs, and of each stage its step, loss, rate, time left and last alert.

    stagecraft status --profile a40
    watch stagecraft status --experiment config/mine.yaml

It only reads the files that the jobs write, so it works on any machine that sees the results, during a run or after.
Which jobs there are was written by the last run or dry run; if none was of this experiment, a dry run says it. Files
that are being written may end in the middle of a line, so whatever cannot be parsed is skipped.
"""

import datetime
import re
import time
from pathlib import Path
from typing import NamedTuple

import orjson
from rich.console import Console, Group
from rich.table import Table

from scripts.common.files import read_json_or_empty
from scripts.common.text import duration
from scripts.experiment.layout import Layout
from scripts.experiment.load import check_owner, experiment_of
from scripts.experiment.settings.experiment import Experiment
from scripts.hosts.job_graph import Job, dry_run, jobs_of, key_of, read_jobs
from scripts.sources.tables.sources_table import sources_of

SILENCE = 600.0  # seconds without any output after which a job counts as stopped; a step or checkpoint takes less
TAIL = 1 << 16  # bytes read of a growing file
# a rule's state is the first of these that one of its jobs is in
STATES = ["failed", "stopped", "running", "waiting", "not started", "done"]
TIME = re.compile(r"\d\d:\d\d:\d\d ")
WORK_FOLDER = re.compile(r", work in (.+)$")  # the first line that scripts/training/train.py logs
ERROR = re.compile(r"error: |fault: |[\w.]+(Error|Exception)\b")
STYLES = {"failed": "red", "stopped": "red", "running": "green", "waiting": "yellow", "not started": "dim"}


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
    if job.last_output.exists():
        return "done", ""
    last_written = max(map(modified, [Path(job.log), *other_files]))
    if not last_written:
        return "not started", ""
    log = read_lines(Path(job.log))
    timed = [number for number, line in enumerate(log) if TIME.match(line)]
    last = TIME.sub("", log[timed[-1]]) if timed else ""
    # an error before a line with a time was not fatal: the job went on
    errors = [line for line in log[timed[-1] + 1 if timed else 0 :] if ERROR.match(line)]
    if errors:
        error = next((line for line in errors if line.startswith(("error: ", "fault: "))), errors[-1])
        if "stopped by SIG" in error:
            return "stopped", error
        return "failed", error
    if now - last_written > SILENCE:
        return "stopped", "; ".join(filter(None, [f"no output for {duration(now - last_written)}", last]))
    if last.startswith("gpus: waiting"):
        return "waiting", last
    return "running", last


def stage_status(job: Job, results: Path, now: float) -> StageStatus:
    """The progress of the stage that `job` trains."""
    # other settings may have left other work folders, so the log's counts
    named = [match[1] for match in map(WORK_FOLDER.search, read_lines(Path(job.log), end=False)) if match]
    work = Layout(results).work(job.name) / (Path(named[0]).name if named else "")
    state, note = state_of(job, [work / "progress.json", work / "metrics.jsonl"], now)
    progress, done = read_json_or_empty(work / "progress.json"), state == "done"
    folder = job.last_output.parent if done else work
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


def jobs_table(jobs: list[Job], now: float) -> Table:
    """A row per rule: how many of its jobs are done, its state, and the note of the first job in that state."""
    table = Table("rule", "done", "state", "", box=None)
    for rule in dict.fromkeys(job.rule for job in jobs):
        states = [(*state_of(job, [], now), job.name) for job in jobs if job.rule == rule]
        state, note, name = min(states, key=lambda each: STATES.index(each[0]))
        done = sum(each[0] == "done" for each in states)
        if name and note:
            note = f"{name}: {note}"
        table.add_row(rule, f"{done}/{len(states)}", state, note, style=STYLES.get(state))
    return table


def stages_table(stages: dict[str, StageStatus]) -> Table:
    """A row per stage."""
    table = Table("stage", "state", "step", "loss", "val. loss", "tokens/s", "ETA", "last alert, note", box=None)

    def cell(value: float | None, form: str) -> str:
        if value is None:
            return ""
        return format(value, form)

    for name, status in stages.items():
        step = eta = ""
        if status.step is not None:
            step = "/".join(filter(None, [cell(status.step, ","), cell(status.steps, ",")]))
        if status.eta_seconds is not None:
            eta = duration(status.eta_seconds)
        figures = cell(status.loss, ".3f"), cell(status.eval_loss, ".3f"), cell(status.tokens_per_second, ",.0f")
        notes = "\n".join(filter(None, [status.alert, status.note]))
        table.add_row(name, status.state, step, *figures, eta, notes, style=STYLES.get(status.state))
    return table


def view(name: str, jobs: list[Job], results: Path) -> Group:
    """Both tables at this moment."""
    now = time.time()
    stages = {job.name: stage_status(job, results, now) for job in jobs if job.rule == "train"}
    at = datetime.datetime.fromtimestamp(now).strftime("%Y-%m-%d %H:%M:%S")
    head = f"{name} in {results}, {at}"
    return Group(head, "", stages_table(stages), "", jobs_table([job for job in jobs if job.rule != "train"], now))


def jobs_in(experiment: Experiment, profile: str, configfile: Path | None) -> list[Job]:
    """The jobs of an experiment."""
    jobs = read_jobs(key_of(experiment, sources_of(experiment)), Path(experiment.results))
    if jobs is None:
        return jobs_of(dry_run(profile, configfile))
    return jobs


def show_status(profile: str, configfile: Path | None) -> None:
    """Print the state."""
    experiment = experiment_of(profile, configfile)[1]
    check_owner(experiment)
    results, jobs = Path(experiment.results), jobs_in(experiment, profile, configfile)
    Console(markup=False, highlight=False).print(view(experiment.experiment, jobs, results))
