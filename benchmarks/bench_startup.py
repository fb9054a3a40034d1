"""How long `snakemake -n` takes on a DAG of 25 sources and 5 stages, against Snakemake's own start.

    python -m benchmarks.bench_startup

Goal: within 1.5 times `snakemake --version` plus 2 seconds.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from scripts.experiment.machine_files import read_yaml

RUNS = 5


def seconds(*words: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "snakemake", *words], check=True, capture_output=True)
    return time.perf_counter() - begin


def experiment(folder: Path) -> Path:
    """The default experiment with 25 sources and 5 stages in a row."""
    rows = [f"s{number}\tsdist\tp{number}==1\t{number:064x}\tpython\thigh\tMIT\n" for number in range(25)]
    (folder / "sources.tsv").write_text("name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n" + "".join(rows))
    config = read_yaml(Path("config/config.yaml"))
    config["results"] = "results/bench_startup"
    config["sources"]["table"] = str(folder / "sources.tsv")
    stages = config["training"]["train"]
    for number, origin in enumerate(["sft", "s0", "s1"]):
        stages[f"s{number}"] = {**stages["sft"], "from": origin}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    return folder / "config.yaml"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = experiment(Path(folder))
        dry = ["-n", "results/bench_startup/eval.json", "-q", "--profile", "local", "--configfile", str(path)]
        pairs = [(seconds("--version"), seconds(*dry)) for _ in range(RUNS + 1)][1:]
    version, plan = (statistics.median(side) for side in zip(*pairs, strict=True))
    goal = 1.5 * version + 2
    print(
        f"startup: snakemake --version {version:.2f} s, -n with 25 sources x 5 stages {plan:.2f} s, goal {goal:.2f} s"
    )


if __name__ == "__main__":
    main()
