"""Show the state of an experiment's jobs, and of each stage its step, loss, rate, time left and last alert.

    stagecraft status --profile a40
    stagecraft status --experiment config/mine.yaml --watch 5

It only reads the files that the jobs write, so it works on any machine that sees the results, during a run or after.
"""

import contextlib
import datetime
import time
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from scripts.common.errors import UserError
from scripts.common.text import duration
from scripts.experiment.load import experiment_of
from scripts.experiment.settings.experiment import Experiment
from scripts.report.content.jobs import STATES, Job, StageStatus, jobs, stage_status, state_of
from scripts.sources.tables.source import Source
from scripts.sources.tables.sources_table import sources_of

STYLES = {"failed": "red", "stopped": "red", "running": "green", "waiting": "yellow", "not started": "dim"}


def jobs_table(listed: list[Job], now: float) -> Table:
    """A row per rule: how many of its jobs are done, its state, and the note of the first job in that state."""
    table = Table("rule", "done", "state", "", box=None)
    for rule in dict.fromkeys(job.rule for job in listed):
        states = [(*state_of(job, [], now), job.name) for job in listed if job.rule == rule]
        state, note, name = min(states, key=lambda each: STATES.index(each[0]))
        done = sum(each[0] == "done" for each in states)
        table.add_row(
            rule, f"{done}/{len(states)}", state, f"{name}: {note}" if name and note else note, style=STYLES.get(state)
        )
    return table


def stages_table(stages: dict[str, StageStatus]) -> Table:
    """A row per stage."""
    table = Table("stage", "state", "step", "loss", "val. loss", "tokens/s", "ETA", "last alert, note", box=None)

    def cell(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    for name, status in stages.items():
        table.add_row(
            name,
            status.state,
            "" if status.step is None else f"{status.step:,}{f'/{status.steps:,}' if status.steps else ''}",
            cell(status.loss, ".3f"),
            cell(status.eval_loss, ".3f"),
            cell(status.tokens_per_second, ",.0f"),
            "" if status.eta_seconds is None else duration(status.eta_seconds),
            "\n".join(filter(None, [status.alert, status.note])),
            style=STYLES.get(status.state),
        )
    return table


def view(experiment: Experiment, sources: list[Source], results: Path) -> Group:
    """Both tables at this moment."""
    listed, now = list(jobs(experiment, sources, results)), time.time()
    stages = {job.name: stage_status(job, results, now) for job in listed if job.rule == "train"}
    at = datetime.datetime.fromtimestamp(now).strftime("%Y-%m-%d %H:%M:%S")
    head = f"{experiment.experiment} in {results}, {at}"
    return Group(head, "", stages_table(stages), "", jobs_table([job for job in listed if job.rule != "train"], now))


def show_status(profile: str, configfile: Path | None, results: Path | None, watch: float | None) -> None:
    """Print the state once, or every `watch` seconds until Ctrl-C.

    Args:
        results: the results root, if not the experiment's own.
    """
    experiment = experiment_of(profile, configfile)[1]
    if results and not results.is_dir():
        raise UserError(f"{results}: no such folder")
    shown = (experiment, sources_of(experiment), results or Path(experiment.results))
    console = Console(markup=False, highlight=False)
    if not watch:
        console.print(view(*shown))
        return
    with contextlib.suppress(KeyboardInterrupt), Live(view(*shown), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(watch)
            live.update(view(*shown), refresh=True)
