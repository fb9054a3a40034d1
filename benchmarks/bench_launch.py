"""What Snakemake itself takes of a run's wall time: on a small DAG with real jobs, and on a large one with empty jobs.

    python -m benchmarks.bench_launch

Goal: under 2% where jobs take five minutes. Real: the share of the time in which no job's command runs. Empty: this
repository's own rules with 25 sources and 5 stages, each job only touching its outputs, so that all is overhead.
"""

import tempfile
import time
from pathlib import Path

import yaml

from benchmarks.figures import Value, store
from scripts.experiment.machine_files import read_yaml
from tests.workflow.conftest import EXPERIMENT, Clone, checkout, row, source

MINUTES = 5
# a shell that notes when it begins and ends; it must be called bash for Snakemake to set its strict mode
TIMED = """#!/bin/bash
begin=$EPOCHREALTIME
bash "$@"
code=$?
echo $begin $EPOCHREALTIME >> {times}
exit $code
"""
EMPTY = """include: "Snakefile"
for each in workflow.rules:
    if not each.norun:
        each.run_func = lambda input, output, *rest: [Path(path).touch() for path in output]
"""


def experiment(folder: Path) -> Path:
    """The default experiment with 25 sources and 5 stages in a row."""
    rows = [f"s{number}\tsdist\tp{number}==1\t{number:064x}\tpython\thigh\tMIT\n" for number in range(25)]
    (folder / "sources.tsv").write_text("name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n" + "".join(rows))
    config = read_yaml(Path("config/config.yaml"))
    config["results"] = "results/bench_launch"
    config["sources"] = str(folder / "sources.tsv")
    stages = config["training"]["train"]
    for number, origin in enumerate(["sft", "s0", "s1"]):
        stages[f"s{number}"] = {**stages["sft"], "from": origin}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder / "config.yaml"


def seconds(clone: Clone, *words: str) -> float:
    begin = time.perf_counter()
    clone.snakemake("--snakefile", "bench.smk", *words)
    return time.perf_counter() - begin


def busy(times: Path) -> float:
    """Seconds in which at least one command ran."""
    spans = sorted(tuple(map(float, line.split())) for line in times.read_text().splitlines())
    total, until = 0.0, 0.0
    for begin, end in spans:
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total


def real(root: Path) -> tuple[int, float, float]:
    """(jobs, wall time, time in which a command ran) of the tiny experiment of the tests."""
    clone = checkout(root / "real")
    table = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
    table += "".join(row(name, source(name, root / "sources" / name)) for name in ("alpha", "beta"))
    (clone.root / "config/tiny.tsv").write_text(table)
    (clone.root / "config/tiny.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    times, shell = root / "times", root / "bin/bash"
    shell.parent.mkdir()
    shell.write_text(TIMED.format(times=times))
    shell.chmod(0o755)
    (clone.root / "bench.smk").write_text(f'include: "Snakefile"\nshell.executable("{shell}")\n')
    wall = seconds(clone, "results/eval.json")
    return len(times.read_text().splitlines()), wall, busy(times)


def empty(root: Path) -> tuple[int, float]:
    """(jobs, wall time) of 25 sources and 5 stages."""
    clone = checkout(root / "empty")
    path = experiment(root)
    (clone.root / "bench.smk").write_text(EMPTY)
    goal = ["results/bench_launch/eval.json", "--configfile", str(path)]
    jobs = len(clone.jobs("--snakefile", "bench.smk", *goal))
    return jobs, seconds(clone, *goal)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        jobs, wall, ran = real(root)
        print(f"launch, tiny DAG: {jobs} jobs in {wall:.1f} s, of which Snakemake itself {1 - ran / wall:.1%}")
        own_share = Value(round(100 * (1 - ran / wall), 1), "%")
        jobs, wall = empty(root)
    values = {"share": own_share, "job": Value(round(wall / jobs, 2), " s")}
    store("launch", values, f"the tests' tiny experiment: time in which no job's command ran; {jobs} empty jobs")
    share = wall / (wall + jobs * MINUTES * 60)
    print(
        f"launch, 25 sources x 5 stages: {jobs} empty jobs in {wall:.1f} s, {wall / jobs:.2f} s a job: {share:.2%} of "
        f"jobs that take {MINUTES} minutes one after the other"
    )


if __name__ == "__main__":
    main()
