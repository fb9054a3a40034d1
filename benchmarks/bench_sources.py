"""Processor time of `snakemake -n` with 1,000 and 10,000 sources, nothing made yet.

    python -m benchmarks.bench_sources [--sources 1000 10000] [--limit 512]

Goal: under 30 s with 10,000 sources. `--limit` is the number of sources up to which each is fetched and filtered in a
job of its own (scripts/experiment/shards.py); one above the number of sources shows what shards spare.
"""

import argparse
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from benchmarks.figures import Value, store
from scripts.experiment.machine_files import read_yaml
from tests.workflow.conftest import checkout


def sources(count: int) -> str:
    rows = [f"repository-{number:05}\tpath\t/not/there/{number}\t{number:064x}" for number in range(count)]
    return "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n" + "".join(
        f"{row}\tpython\tmedium\tMIT\n" for row in rows
    )


def dry_run(root: Path, target: str) -> tuple[int, float]:
    """(jobs, seconds of processor time) of a dry run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "snakemake", "-n", target, "--profile", "local", "--configfile", "many.yaml"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    jobs = re.search(r"^total +(\d+)$", done.stdout + done.stderr, re.MULTILINE)
    return int(jobs[1]) if jobs else 0, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sources", type=int, nargs="+", default=[1_000, 10_000])
    arguments.add_argument("--limit", type=int, help="in place of the 512 of scripts/experiment/shards.py")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone = checkout(Path(folder))
        if options.limit:
            clone.replace("scripts/experiment/shards.py", "ONE_BY_ONE = 512", f"ONE_BY_ONE = {options.limit}")
        config = read_yaml(Path("config/examples/from-scratch.yaml"))
        config |= {"sources": "many.tsv", "results": "results"}
        (clone.root / "many.yaml").write_text(yaml.safe_dump(config))
        values = {}
        for count in options.sources:
            (clone.root / "many.tsv").write_text(sources(count))
            for target in ("data", "results/eval.json"):
                jobs, seconds = dry_run(clone.root, target)
                print(f"{count:,} sources, {target}: {jobs:,} jobs, {seconds:.1f} s of processor time", flush=True)
                values["thousand" if count == 1_000 else "ten_thousand"] = Value(round(seconds, 1), " s")
                values["jobs"] = Value(jobs, " jobs")
    if options.sources == [1_000, 10_000] and not options.limit:
        store("sources", values, "processor time of `snakemake -n results/eval.json` with a generated table")


if __name__ == "__main__":
    main()
