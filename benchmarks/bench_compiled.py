"""Processor time of judging a program in C++, Rust, Go or Java: the first of a problem, and each further one.

    python -m benchmarks.bench_compiled humaneval_cpp.jsonl.gz humaneval_java.jsonl.gz

Judges the canonical solutions of 8 problems of each file three times; the first round builds the tests. Prints, a line
per file, the processor time of the whole machine per program in ms, so nothing else should run.
"""

import json
import sys
from pathlib import Path

from benchmarks.bench_sandbox import timed
from scripts.evaluation.benchmarks.formats import read
from scripts.judge.judge import Judge
from scripts.judge.problem import Problem
from scripts.judge.sandbox import probe
from scripts.judge.sandbox.program import Limits


def judged(judge: Judge, problems: list[Problem]) -> int:
    return sum(judge.judge(problem, problem.head + problem.canonical).outcome == "passed" for problem in problems)


def main() -> None:
    if len(sys.argv) < 2:
        print(json.dumps({"bench": "compiled", "skipped": "give a HumanEval-X file"}))
        return
    sandbox = probe.sandbox()
    for path in map(Path, sys.argv[1:]):
        problems = read(path)[3::20][:8]
        judge = Judge(sandbox, Limits(60, 1 << 30))
        _, prepared, _, _ = timed(lambda: judge.compiled.compilers.of(problems[0].language))  # noqa: B023, run at once
        rounds = [timed(lambda: judged(judge, problems)) for _ in range(3)]  # noqa: B023
        milliseconds = [round(processor / len(problems) * 1000) for _, processor, _, _ in rounds]
        line = {"bench": f"compiled: {problems[0].language}", "problems": len(problems), "passed": rounds[0][3]}
        line |= {"once_ms": round(prepared * 1000), "first_ms": milliseconds[0], "further_ms": milliseconds[1:]}
        print(json.dumps(line))


if __name__ == "__main__":
    main()
