"""How far an experiment is: its jobs, and of each stage step, loss, rate, time left and the last alert.

    python -m scripts.report.commands.status --profile a40
    python -m scripts.report.commands.status --profile local --configfile config/mine.yaml --watch 5

It reads what the jobs write, and nothing else: it runs on any machine that sees the results, beside Snakemake or when
that is long gone. Who writes at this moment may be met in the middle of a line: what cannot be read is passed over.
"""

import contextlib
import datetime
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from scripts.common.cli import parser, run
from scripts.experiment.layout import MANIFEST, Layout, raw_archive, raw_manifest
from scripts.experiment.load import experiment_of
from scripts.experiment.settings.record import to_dict
from scripts.experiment.suites import METRICS, PROMPTED
from scripts.sources.tables.sources_table import names_of

QUIET = 600.0  # seconds without a sign of life; a step, a validation or a checkpoint takes less
PART = 1 << 16  # bytes read of a file that grows
# a rule's state is the first of these that one of its jobs is in
STATES = ["failed", "stopped", "running", "waiting", "not started", "done"]
STYLES = {"failed": "red", "stopped": "red", "running": "green", "waiting": "yellow", "not started": "dim"}
STAMP = re.compile(r"\d\d:\d\d:\d\d ")
WORK = re.compile(r", work in (.+)$")  # scripts/training/train.py's first line
ERROR = re.compile(r"error: |[\w.]+(Error|Exception)\b")


@dataclass(frozen=True)
class Job:
    """A job of the workflow: the file that is there when it is done, the log it writes. `name` may be empty."""

    rule: str
    name: str
    output: Path
    log: Path


def jobs(experiment: dict, sources: list[str], results: Path) -> Iterator[Job]:
    """The jobs of an experiment, in the order in which data flows."""

    layout = Layout(results)

    def job(area: str, rule: str, output: Path, name: str = "") -> Job:
        return Job(rule, name, output, layout.log(area, rule, name))

    for name in sources:
        rule = "pull" if Path(f"{raw_archive(name)}.dvc").is_file() else "fetch"
        yield job("sources", rule, raw_manifest(name), name)
    yield from (job("corpus", "filter", layout.filtered(name) / MANIFEST, name) for name in sources)
    if sources:
        yield job("corpus", "deduplicate", layout.deduplicated / MANIFEST)
        yield job("corpus", "split", layout.split / MANIFEST)
    stages = experiment["training"]["train"]
    for name in experiment["corpus"]["compose"]:
        yield job("corpus", "compose", layout.dataset(name) / MANIFEST, name)
    yield job("training", "base", layout.model("base") / MANIFEST)
    yield job("tokens", "tokenizer", layout.tokenizer / MANIFEST)
    packed = dict.fromkeys(layout.shards(stage["data"], stage["sequence_length"]) for stage in stages.values())
    yield from (job("tokens", "pack", folder / MANIFEST, folder.name) for folder in packed)
    yield from (job("training", "train", layout.model(name) / MANIFEST, name) for name in stages)
    suites = [suite for suite in METRICS if suite in experiment["evaluation"] and suite != "human"]
    for suite in suites:
        for name in ("base", *stages):
            yield job("evaluation", suite, layout.suite(suite, name) / "scores.json", name)
    if any(suite in PROMPTED for suite in suites):
        yield job("evaluation", "contamination", layout.overlaps)
    if "human" in experiment["evaluation"]:
        yield job("evaluation", "sheet", layout.sheet / "key.json")
        yield job("evaluation", "human", layout.agreement)
    yield job("evaluation", "gate", layout.gate)
    yield job("report", "plots", layout.picture("gates"))
    yield job("report", "page", layout.page)
    yield job("report", "verdict", layout.evaluation)


def lines(path: Path, end: bool = True) -> list[str]:
    """The last lines of a text file, or its first; none where it is not there."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - PART) if end else 0)
            return file.read(PART).decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []


def records(path: Path) -> list[dict]:
    """The last records of a JSON-lines file, less what is no JSON object."""
    found = []
    for line in lines(path):
        try:
            found.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue  # half written, or cut by PART
    return [record for record in found if isinstance(record, dict)]


def record(path: Path) -> dict:
    """The JSON object in a file; an empty one where it is not there or not whole."""
    try:
        found = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def written(path: Path) -> float:
    """When a file was last written (seconds since 1970); 0 where it is not, or no longer, there."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def state_of(job: Job, signs: list[Path], now: float) -> tuple[str, str]:
    """(one of STATES, what is to be said of it). `signs`: other files that the job writes while it lives."""
    if job.output.exists():
        return "done", ""
    alive = max(map(written, [job.log, *signs]))
    if not alive:
        return "not started", ""
    log = lines(job.log)
    stamped = [number for number, line in enumerate(log) if STAMP.match(line)]
    last = STAMP.sub("", log[stamped[-1]]) if stamped else ""
    # a job that goes on writes a line with its time after whatever a library may have said
    errors = [line for line in log[stamped[-1] + 1 if stamped else 0 :] if ERROR.match(line)]
    if errors:
        said = next((line for line in errors if line.startswith("error: ")), errors[-1])
        return "stopped" if "stopped by SIGTERM" in said else "failed", said
    if now - alive > QUIET:
        return "stopped", f"no sign of life for {span(now - alive)}{f'; {last}' if last else ''}"
    return ("waiting" if last.startswith("gpus: waiting") else "running"), last


def stage(job: Job, results: Path, now: float) -> dict:
    """What is known of a stage: `state`, `note`, `step`, `steps`, `loss`, `eval_loss`, `tokens_per_second`,
    `eta_seconds`, `alert`; None for what is not."""
    # the folder that the log names: there may be others, which other settings made
    named = [match[1] for match in map(WORK.search, lines(job.log, end=False)) if match]
    work = Layout(results).work(job.name) / (Path(named[0]).name if named else "")
    state, note = state_of(job, [work / "progress.json", work / "metrics.jsonl"], now)
    progress, done = record(work / "progress.json"), state == "done"
    folder = job.output.parent if done else work
    summary, logged, alerts = (
        record(folder / "summary.json"),
        records(folder / "metrics.jsonl"),
        records(folder / "alerts.jsonl"),
    )

    def last(name: str):
        return next((entry[name] for entry in reversed(logged) if entry.get(name) is not None), None)

    return {
        "state": state,
        "note": "" if state == "running" and progress else note,
        "step": summary.get("steps") or last("step") or progress.get("step"),
        "steps": summary.get("steps") or progress.get("steps"),
        "loss": last("loss"),
        "eval_loss": summary.get("eval_loss") or last("eval_loss"),
        "tokens_per_second": summary.get("tokens_per_second") or last("tokens_per_second"),
        "eta_seconds": progress.get("eta_seconds") if state == "running" else None,
        "alert": f"step {alerts[-1].get('step')}: {alerts[-1].get('text')}" if alerts else None,
    }


def span(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`."""
    minutes = int(seconds // 60)
    if minutes >= 1440:
        return f"{minutes // 1440} d {minutes % 1440 // 60} h"
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"


def jobs_table(found: list[Job], now: float) -> Table:
    """A row per rule: how many of its jobs are done, its state, and what the first job in that state says."""
    table = Table("rule", "done", "state", "", box=None)
    for rule in dict.fromkeys(job.rule for job in found):
        states = [(*state_of(job, [], now), job.name) for job in found if job.rule == rule]
        state, note, name = min(states, key=lambda each: STATES.index(each[0]))
        done = sum(each[0] == "done" for each in states)
        said = f"{name}: {note}" if name and note else note
        table.add_row(rule, f"{done}/{len(states)}", state, said, style=STYLES.get(state))
    return table


def stages_table(found: dict[str, dict]) -> Table:
    """A row per stage."""
    table = Table("stage", "state", "step", "loss", "val. loss", "tokens/s", "ETA", "last alert, note", box=None)

    def shown(value: float | None, form: str) -> str:
        return "" if value is None else format(value, form)

    for name, facts in found.items():
        eta, steps = facts["eta_seconds"], facts["steps"]
        table.add_row(
            name,
            facts["state"],
            "" if facts["step"] is None else f"{facts['step']:,}{f'/{steps:,}' if steps else ''}",
            shown(facts["loss"], ".3f"),
            shown(facts["eval_loss"], ".3f"),
            shown(facts["tokens_per_second"], ",.0f"),
            "" if eta is None else span(eta),
            "\n".join(filter(None, [facts["alert"], facts["note"]])),
            style=STYLES.get(facts["state"]),
        )
    return table


def view(experiment: dict, sources: list[str], results: Path) -> Group:
    """Both tables, as things are now."""
    found, now = list(jobs(experiment, sources, results)), time.time()
    stages = {job.name: stage(job, results, now) for job in found if job.rule == "train"}
    at = datetime.datetime.fromtimestamp(now).strftime("%Y-%m-%d %H:%M:%S")
    head = f"{experiment['experiment']} in {results}, {at}"
    return Group(head, "", stages_table(stages), "", jobs_table([job for job in found if job.rule != "train"], now))


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--profile", default="local", help="the profile that the experiment runs with")
    arguments.add_argument("--configfile", type=Path, help="the experiment, if not the profile's own")
    arguments.add_argument("--results", type=Path, help="the results root, if not the experiment's own")
    arguments.add_argument("--watch", type=float, help="look again after so many seconds, until Ctrl-C")
    given = arguments.parse_args()
    experiment = experiment_of(given.profile, given.configfile)[1]
    what = (to_dict(experiment), names_of(experiment), given.results or Path(experiment.results))
    console = Console(markup=False, highlight=False)
    if not given.watch:
        console.print(view(*what))
        return
    with contextlib.suppress(KeyboardInterrupt), Live(view(*what), console=console, auto_refresh=False) as live:
        while True:
            time.sleep(given.watch)
            live.update(view(*what), refresh=True)


if __name__ == "__main__":
    run(main)
