"""The whole path of data, sources → archives → packed shards, on two cores against one.

    python -m benchmarks.bench_cores [--megabytes 100] [--sources 12]

Goal: at least 1.7 times as fast. The sources are packages of this environment; datasets of code and of chats, each
packed. On one core Snakemake and its jobs are confined to it. Wall times say little where others use the cores, so two
more figures are printed: the share of the machine's processor time that others had, and what two cores can give at best
by the processor time of each job and the longest chain of jobs. In a job what its processes and threads do at the same
time counts once (`compose` of chats parses in processes, `tokenizer` and `pack` count words and encode in threads);
Snakemake itself counts as one core's. `--wall no` leaves out the run on one core.
"""

import argparse
import os
import re
import sysconfig
import tempfile
import time
from pathlib import Path

import psutil
import yaml

from scripts.common.errors import UserError
from scripts.experiment.provenance import Index
from scripts.sources.archives.archive_members import Limits
from scripts.sources.archives.canonical_archive import pack_folder
from tests.workflow.conftest import Clone, checkout

# a shell that notes the processor time of each job; it must be called bash for Snakemake to set its strict mode
TIMED = """#!/bin/bash
export JOB=$(echo "$*" | grep -o 'tee [^ ]*')
bash "$@"
code=$?
times > {times}.$$  # not behind a pipe, where it would be another shell's
{{ echo "$JOB"; tail -1 {times}.$$; }} | paste -sd' ' >> {times}
exit $code
"""
# what Python runs when it starts: at its end a job notes the seconds that a second core saves it
SAVED = """
import atexit, os, resource
def note():
    ticks = []
    for thread in os.listdir("/proc/self/task"):
        if int(thread) != os.getpid():
            fields = open(f"/proc/self/task/{{thread}}/stat").read().rpartition(")")[2].split()
            ticks.append((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    saved = sum(ticks) - max(ticks, default=0) + (children.ru_utime + children.ru_stime) / 2
    with open("{saved}", "a") as file:
        file.write(f"{{os.environ['JOB']}} {{saved:.2f}}\\n")
if os.environ.get("JOB"):
    atexit.register(note)
"""
DATASETS = {"code": {"kind": "code"}, "instruct": {"kind": "instruct", "language": "en"}}


def packages(count: int, megabytes: float) -> list[Path]:
    """Packages of this environment: the largest that together hold about so much Python, all about as much."""
    root, sizes = Path(sysconfig.get_path("purelib")), {}
    for folder in root.iterdir():
        if folder.is_dir() and re.fullmatch("[a-z][a-z0-9_]*", folder.name):
            sizes[folder] = sum(path.stat().st_size for path in folder.rglob("*.py")) / 1e6
    fitting = [folder for folder in sizes if sizes[folder] <= 2 * megabytes / count]
    return sorted(fitting, key=sizes.get)[-count:]


def run(clone: Clone, name: str, cores: int, folders: list[Path]) -> tuple[float, float, float]:
    """(wall, processor time, share of the machine's processor time that others had) of making the data."""
    table = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
    for folder in folders:
        pin = pack_folder(folder, None, Limits())["sha256"]
        table += f"{folder.name.replace('_', '-')}\tpath\t{folder}\t{pin}\tpython\thigh\tMIT\n"
    (clone.root / "cores.tsv").write_text(table)
    config = {"experiment": "cores", "results": f"results/{name}", "sources": {"table": "cores.tsv"}}
    config |= {"corpus": {"compose": DATASETS}}
    config["tokens"] = {"tokenizer": {"vocab_size": 4096}, "sequence_lengths": [2048]}
    (clone.root / "cores.yaml").write_text(yaml.safe_dump(config))
    for path in (clone.root / "data/raw").glob("*"):
        path.unlink()
    mine, machine, begin = os.times(), psutil.cpu_times(), time.perf_counter()
    done = clone.snakemake("data", "--configfile", "cores.yaml", "--cores", str(cores), check=False)
    if done.returncode:
        raise UserError(done.stderr[-2000:])
    wall, spent = time.perf_counter() - begin, psutil.cpu_times()
    own = sum(os.times()[2:4]) - sum(mine[2:4])
    total = {key: getattr(spent, key) - value for key, value in machine._asdict().items()}
    return wall, own, (total["user"] + total["system"] + total["steal"] - own) / sum(total.values())


def chain(clone: Clone, seconds: dict[str, float]) -> tuple[float, list[str]]:
    """(seconds, logs) of the longest chain of jobs, each having to wait for the one before."""
    os.chdir(clone.root)
    jobs, made_by = {}, {}
    for made in Index().jobs.values():
        if made.log and made.log[0] in seconds:
            jobs[made.log[0]] = list(made.inputs)
            made_by |= dict.fromkeys(made.outputs, made.log[0])
    ends: dict[str, tuple[float, list[str]]] = {}

    def end(log: str) -> tuple[float, list[str]]:
        if log not in ends:
            before = max((end(made_by[path]) for path in jobs[log] if path in made_by), default=(0.0, []))
            ends[log] = before[0] + seconds[log], [*before[1], log]
        return ends[log]

    return max(end(log) for log in jobs)


def say_bound(clone: Clone, times: str, saved: str, used: float) -> None:
    """Print what two cores can give, from the processor times that the jobs of a run noted."""
    matches = re.findall(r"tee '?([^' ]+)'? (\d+)m([\d.]+)s (\d+)m([\d.]+)s", times)
    seconds = {log: 60 * int(a) + float(b) + 60 * int(c) + float(d) for log, a, b, c, d in matches}
    total = sum(seconds.values())
    spans = dict(seconds)
    for log, second_core in re.findall(r"tee '?([^' ]+)'? ([\d.]+)", saved):
        spans[log] -= float(second_core)
    longest, logs = chain(clone, spans)
    print(f"jobs: {total:.1f} s of processor time, Snakemake itself {used - total:.1f}; longest chain {longest:.1f} s:")
    print(", ".join(f"{Path(log).parent.name}/{Path(log).stem} {spans[log]:.1f} of {seconds[log]:.1f}" for log in logs))
    best = max(total / 2, longest)
    print(f"two cores can give {total / best:.2f} in jobs, {used / (best + used - total):.2f} in all", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--megabytes", type=float, default=100)
    arguments.add_argument("--sources", type=int, default=12)
    arguments.add_argument("--wall", choices=["yes", "no"], default="yes")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        clone, times, shell = checkout(root / "clone"), root / "times", root / "bin/bash"
        clone.real = True
        shell.parent.mkdir()
        shell.write_text(TIMED.format(times=times))
        shell.chmod(0o755)
        main_file = clone.root / "Snakefile"
        main_file.write_text(f"{main_file.read_text()}\nshell.executable({str(shell)!r})\n")
        folders = packages(options.sources, options.megabytes)
        (root / "start").mkdir()
        saved = root / "saved"
        (root / "start/sitecustomize.py").write_text(SAVED.format(saved=saved))
        os.environ["PYTHONPATH"] = str(root / "start")
        run(clone, "first", 2, folders[:1])  # compiles the kernels
        times.write_text("")
        saved.write_text("")
        both, used, others = run(clone, "on2", 2, folders)
        print(f"two cores: {both:.1f} s, {used:.1f} s of processor time; others had {others:.0%}", flush=True)
        say_bound(clone, times.read_text(), saved.read_text(), used)
        if options.wall == "yes":
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
            wall, used, others = run(clone, "on1", 1, folders)
            print(f"one core: {wall:.1f} s, {used:.1f} s of processor time; others had {others:.0%}")
            print(f"two cores against one: {wall / both:.2f}")


if __name__ == "__main__":
    main()
