"""How long the judge takes for a program, against running program and tests together in one unprotected process.

    python -m benchmarks.bench_judge

Small problems of its own, in Python and in C++ as HumanEval-X and as MultiPL-E write it; right programs, one at a time,
the two ways by turns. Prints and stores the ratio of the medians, so that the load of the machine counts little. The
first judgement of a C++ problem also builds its tests; the ratio is of the further ones, as of several samples.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.figures import Value, store
from scripts.judge.judge import Judge
from scripts.judge.problem import Problem
from scripts.judge.sandbox import probe
from scripts.judge.sandbox.program import Limits

ROUNDS = 15
PYTHON_HEAD = "def f(x):\n"
CPP_HEADS = {
    "cpp": "#include<vector>\nusing namespace std;\nvector<long> f(vector<long> x) {\n",
    "cpp_all": "#include<assert.h>\n#include<bits/stdc++.h>\nusing namespace std;\nvector<long> f(vector<long> x) {\n",
}
CPP_TESTS = "#include<assert.h>\nint main() { assert(f({1, 2}) == vector<long>({1, 2})); }\n"
NAMES = {"python": "Python", "cpp": "C++, some headers", "cpp_all": "C++, bits/stdc++.h"}


def plain_python(program: str, tests: str) -> None:
    subprocess.run([sys._base_executable, "-I", "-S", "-c", f"{program}\n{tests}"], check=True)


def plain_cpp(program: str, tests: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, binary = Path(folder, "all.cpp"), Path(folder, "all")
        source.write_text(f"{program}\n{tests}")
        subprocess.run(["g++", "-std=c++17", "-O1", "-w", "-o", binary, source], check=True)
        subprocess.run([binary], check=True)


def seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    judge = Judge(probe.sandbox(), Limits(60, 1 << 30))
    python = Problem("B/1", "python", PYTHON_HEAD, f"{PYTHON_HEAD}    pass\n", "assert f(3) == 3\n", "f", ())
    cases = {"python": (python, f"{PYTHON_HEAD}    return x\n", plain_python)}
    for name, head in CPP_HEADS.items():
        problem = Problem(f"B/{name}", "cpp", head, head, CPP_TESTS, "f", ())
        cases[name] = problem, f"{head}    return x;\n}}\n", plain_cpp
    values, rows = {}, [["program", "ours (s)", "one process (s)", "ratio"]]
    for name, (problem, program, plain) in cases.items():
        if judge.judge(problem, program).outcome != "passed":
            raise SystemExit(f"{name}: the right program does not pass")
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(seconds(lambda: judge.judge(problem, program)))  # noqa: B023, called at once
            theirs.append(seconds(lambda: plain(program, problem.tests)))  # noqa: B023
        medians = statistics.median(ours), statistics.median(theirs)
        ratio = round(medians[0] / medians[1], 1)
        quarters = statistics.quantiles([a / b for a, b in zip(ours, theirs, strict=True)], n=4)
        values[name] = Value(ratio, " times", f"middle half of {ROUNDS} pairs: {quarters[0]:.1f} to {quarters[2]:.1f}")
        rows.append([NAMES[name], round(medians[0], 3), round(medians[1], 3), ratio])
        print(json.dumps({"bench": f"judge: {name}", "ratio": ratio, "seconds": medians}))
    store("judge", values, "one program at a time, other programs on the same cores", {"ratios": rows})


if __name__ == "__main__":
    main()
