"""scripts/report/commands/status.py: states from what jobs write, also half-written or long ago; no GPU."""

import json
import os
import time
from pathlib import Path

import pytest
from rich.console import Console

from scripts.common.text import duration
from scripts.experiment.load import experiment_of
from scripts.hosts.job_graph import Job, key_of, write_jobs
from scripts.report.commands.status import jobs_in, show_status, stage_status, state_of, view
from scripts.sources.tables.sources_table import sources_of

NOW = 1_800_000_000.0
STARTS = "10:00:00 sft: starts, work in results/work/train/sft/0123\n"
TELLS = "10:00:09 sft: step 3/8, loss 2.500, 1,000 tokens/s, ETA 9 s\n"
WAITS = "10:00:00 gpus: waiting for 2: GPU 0 leased by process 7 in /home/anna\n"
TORCHRUN = "Traceback (most recent call last):\ntorch.distributed.elastic.ChildFailedError:\n=====\n"


def write(path: Path, content: str | bytes, age: float = 0) -> Path:
    """A file that was last written `age` seconds before NOW."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (NOW - age, NOW - age))
    return path


def job(results: Path, area: str, rule: str, output: str, name: str = "") -> Job:
    log = f"{results}/logs/{area}/{rule}{f'/{name}' if name else ''}.log"
    return Job(rule, area, name, [], [f"{results}/{area}/{output}"], log)


def sft(results: Path) -> Job:
    return job(results, "training", "train", "train/sft/manifest.json", "sft")


def facts(results: Path) -> dict:
    return stage_status(sft(results), results, NOW)._asdict()


@pytest.mark.parametrize(
    ("log", "age", "state", "note"),
    [
        (None, 0, "not started", ""),
        ("", 5, "running", ""),
        (STARTS, 599, "running", "sft: starts, work in results/work/train/sft/0123"),
        (STARTS, 720, "stopped", "no output for 12 min; sft: starts, work in results/work/train/sft/0123"),
        (WAITS, 50, "waiting", WAITS[9:-1]),
        (WAITS, 7200, "stopped", f"no output for 2 h 0 min; {WAITS[9:-1]}"),
        (f"{WAITS}{STARTS}", 5, "running", "sft: starts, work in results/work/train/sft/0123"),
        (f"{STARTS}error: sft: no rows\n{TORCHRUN}", 5, "failed", "error: sft: no rows"),
        (f"{STARTS}{TORCHRUN}ValueError: [/bold] shapes\n", 9999, "failed", "ValueError: [/bold] shapes"),
        (f"{STARTS}SomeError: of a library\n{TELLS}", 5, "running", TELLS[9:-1]),
        (f"{STARTS}error: sft: stopped by SIGTERM at 3", 5, "stopped", "error: sft: stopped by SIGTERM at 3"),
    ],
)
def test_a_jobs_state_follows_from_its_log_and_the_logs_age(tmp_path, log, age, state, note):
    if log is not None:
        write(Path(sft(tmp_path).log), log, age)
    assert state_of(sft(tmp_path), [], NOW) == (state, note)
    write(sft(tmp_path).last_output, "{}", 99999)
    assert state_of(sft(tmp_path), [], NOW) == ("done", "")


def running(results: Path, age: float = 5, key: str = "0123") -> Path:
    """The work folder of a stage that has logged steps up to 30, its log quiet since it began."""
    work = results / "work/train/sft" / key
    write(results / "logs/training/train/sft.log", STARTS, 50_000)
    steps = [{"step": step, "loss": 3 - step / 100, "tokens_per_second": 100.0 * step} for step in (10, 20, 30)]
    lines = [*steps[:2], {"step": 20, "eval_loss": 2.9}, steps[2]]
    write(work / "metrics.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines), age)
    progress = {"state": "running", "step": 31, "steps": 400, "eta_seconds": 7300.0, "loss": 2.7}
    write(work / "progress.json", json.dumps(progress), age)
    write(work / "alerts.jsonl", '{"step": 7, "text": "gradient norm 9 exceeds 5"}\n{"step": 12, "text": "hot"}\n', age)
    return work


LIVE = {"step": 30, "steps": 400, "loss": 2.7, "eval_loss": 2.9, "tokens_per_second": 3000.0, "alert": "step 12: hot"}


def test_a_running_stage_shows_step_loss_rate_time_left_and_the_last_alert(tmp_path):
    running(tmp_path)
    assert facts(tmp_path) == {"state": "running", "note": "", "eta_seconds": 7300.0, **LIVE}


@pytest.mark.parametrize(
    "broken", [b"", b"\n\n", b'{"step": 3, "lo', b"\xff\x00\xfe\x00\n", b"[1]\n", b"null\n", b"7\n"]
)
def test_files_that_are_empty_or_half_written_are_passed_over(tmp_path, broken):
    work = running(tmp_path)
    for name in ("metrics.jsonl", "alerts.jsonl"):
        path = work / name
        write(path, path.read_bytes() + broken)
    assert {name: facts(tmp_path)[name] for name in LIVE} == LIVE
    for path in work.iterdir():
        write(path, broken)
    nothing = facts(tmp_path)
    assert nothing["state"] == "running" and not any(nothing[name] for name in LIVE if name != "step")
    assert view("mine", [sft(tmp_path)], tmp_path)


def test_only_the_end_of_a_long_metric_log_is_read(tmp_path):
    work = running(tmp_path)
    last = (work / "metrics.jsonl").read_bytes()
    write(work / "metrics.jsonl", b'{"step": 1, "loss": 9.0, "grad_norm": 1.0}\n' * 100_000 + last)
    assert {name: facts(tmp_path)[name] for name in LIVE} == LIVE


def test_the_view_counts_jobs_per_rule_and_shows_markup_in_errors_as_text(tmp_path):
    results = tmp_path / "r"
    work = running(results)
    now = time.time()
    for path in (work / "progress.json", work / "metrics.jsonl"):
        os.utime(path, (now, now))
    write(results / "evaluation/perplexity/base/scores.json", "{}")
    write(results / "logs/evaluation/perplexity/sft.log", "error: no [bold]text[/red] here")
    jobs = [job(results, "corpus", "filter", f"filter/{name}/manifest.json", name) for name in ("one", "two")]
    jobs += [
        job(results, "evaluation", "perplexity", f"perplexity/{name}/scores.json", name) for name in ("base", "sft")
    ]
    jobs.append(sft(results))
    console = Console(width=160, markup=False, highlight=False)
    with console.capture() as capture:
        console.print(view("mine", jobs, results))
    lines = [" ".join(line.split()) for line in capture.get().splitlines()]
    assert "sft running 30/400 2.700 2.900 3,000 2 h 1 min step 12: hot" in lines
    assert "filter 0/2 not started" in lines
    assert "perplexity 1/2 failed sft: error: no [bold]text[/red] here" in lines


@pytest.fixture
def written(tmp_path, monkeypatch) -> list[Job]:
    """The jobs that a dry run of the default experiment left, in a folder with the files that `status` reads."""
    for name in ("config", "profiles", "local", ".git"):
        (tmp_path / name).symlink_to(Path(name).absolute())
    monkeypatch.chdir(tmp_path)
    experiment = experiment_of("local", None)[1]
    results = Path(experiment.results)
    jobs = [
        job(results, "corpus", "split", "split/manifest.json"),
        job(results, "training", "train", "train/own/manifest.json", "own"),
    ]
    write_jobs(jobs, key_of(experiment, sources_of(experiment)), results)
    return jobs


def test_the_jobs_are_those_that_snakemake_wrote(written):
    experiment = experiment_of("local", None)[1]
    assert jobs_in(experiment, "local", None) == written


def test_jobs_of_an_experiment_with_other_settings_or_sources_are_not_used(written, monkeypatch):
    experiment = experiment_of("local", None)[1]
    other = experiment.model_copy(update={"seed": experiment.seed + 1})
    assert key_of(other, sources_of(experiment)) != key_of(experiment, sources_of(experiment))
    assert key_of(experiment, sources_of(experiment)[1:]) != key_of(experiment, sources_of(experiment))
    asked = []
    monkeypatch.setattr("scripts.report.commands.status.dry_run", lambda *words: asked.append(words))
    monkeypatch.setattr("scripts.report.commands.status.jobs_of", lambda workflow: [])
    assert jobs_in(other, "local", None) == [] and asked == [("local", None)]


def test_an_experiment_that_never_ran_is_shown(written, capsys):
    show_status("local", None)
    shown = capsys.readouterr().out
    assert "own" in shown and "split" in shown and "not started" in shown


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (59.9, "60 s"), (60, "1 min"), (12000, "3 h 20 min"), (187_200, "2 d 4 h")]
)
def test_a_span_of_time_is_written_in_its_two_largest_units(seconds, words):
    assert duration(seconds) == words
