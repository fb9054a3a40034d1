"""Programs judged per second in the sandbox, against a plain loop that runs them one at a time, unprotected.

    python -m benchmarks.bench_sandbox HumanEval.jsonl.gz [problems]

Judges the canonical solutions of a benchmark's first problems. The plain loop starts an interpreter for program and
tests together and believes its exit code; with judge and candidate the sandbox starts two, with five namespaces each.
Prints the rates of one run each, after one that warms caches up. Python problems only. Beside each rate stand the
processor time of the whole machine per program, in ms, and the share of its cores that its host gave to others.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from benchmarks.figures import Value, store
from scripts.evaluation.benchmarks.formats import Problem, read
from scripts.judge.judge import Judge, judge_all
from scripts.judge.sandbox import probe
from scripts.judge.sandbox.program import Limits


def timed(function) -> tuple[float, float, float, int]:
    """(wall seconds, processor seconds of the machine, share of its cores given to others, what it returns)."""
    start, before = time.perf_counter(), psutil.cpu_times()
    result = function()
    wall, after = time.perf_counter() - start, psutil.cpu_times()
    spent = {name: getattr(after, name) - value for name, value in before._asdict().items()}
    return wall, spent["user"] + spent["system"], spent["steal"] / sum(spent.values()), result


def ours(judge: Judge, programs: list[tuple[Problem, str]]) -> int:
    return sum(verdict.outcome == "passed" for verdict in judge_all(judge, programs))


def one_at_a_time(judge: Judge, programs: list[tuple[Problem, str]]) -> int:
    return sum(judge.judge(*program).outcome == "passed" for program in programs)


def plain(programs: list[tuple[Problem, str]]) -> int:
    done = [
        subprocess.run([sys._base_executable, "-c", f"{code}\n{problem.tests}"], capture_output=True)
        for problem, code in programs
    ]
    return sum(process.returncode == 0 for process in done)


def main() -> None:
    if len(sys.argv) < 2:
        print(json.dumps({"bench": "sandbox", "skipped": "give a HumanEval file"}))
        return
    problems = read(Path(sys.argv[1]))[: int(sys.argv[2]) if len(sys.argv) > 2 else None]
    programs = [(problem, problem.head + problem.canonical) for problem in problems]
    judge = Judge(probe.sandbox(), Limits(10, 1 << 30))
    ours(judge, programs[:8]), plain(programs[:8])
    runs = {"ours": lambda: ours(judge, programs), "one at a time": lambda: one_at_a_time(judge, programs)}
    for name, run in {**runs, "plain loop, no isolation": lambda: plain(programs)}.items():
        wall, processor, stolen, passed = timed(run)
        line = {"bench": f"sandbox: {name}", "problems": len(programs), "passed": passed}
        line |= {"problems/s": round(len(programs) / wall, 1), "cores": len(os.sched_getaffinity(0))}
        line |= {"processor_ms": round(processor / len(programs) * 1000), "stolen": round(stolen, 2)}
        print(json.dumps(line))
        if name == "ours":
            values = {
                "speed": Value(line["problems/s"], " problems a second"),
                "processor": Value(line["processor_ms"], " ms"),
            }
            store("sandbox", values, f"{len(programs)} canonical solutions on all cores; {stolen:.0%} of them stolen")


if __name__ == "__main__":
    main()
