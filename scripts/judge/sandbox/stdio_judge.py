"""Judge a program by what it prints for each input: standard input in, standard output compared outside the sandbox.

    verdict = StdioJudge(sandbox, limits, packages).judge(problem, code)

Each case is a run of its own in a sandbox of its own, with the limits of one program. The expected outputs are never in
a sandbox, so a program can only print what it computes. Compared as LiveCodeBench does (lcb_runner, testing_util.py):
line by line without white space at the ends; lines that differ are the same if both hold the same decimal numbers.
"""

import json
import re
import sys
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from scripts.judge.problem import Problem, Verdict
from scripts.judge.sandbox.bubblewrap import Sandbox, memory_file
from scripts.judge.sandbox.packages import Packages
from scripts.judge.sandbox.program import DETAIL, KEPT, Limits, Program, exceeded, message, wait


def decimals(line: str) -> list[Decimal] | None:
    """The numbers in a line; None if it holds anything else."""
    try:
        return [Decimal(word) for word in line.split()]
    except InvalidOperation:
        return None


def same_line(printed: str, expected: str) -> bool:
    if printed == expected:
        return True
    numbers = decimals(printed), decimals(expected)
    try:
        return None not in numbers and numbers[0] == numbers[1]
    except InvalidOperation:  # a signalling NaN
        return False


def difference(printed: str, expected: str) -> str:
    """Where two outputs differ, for people; empty if they do not."""
    lines, right = ([line.strip() for line in text.strip().split("\n")] for text in (printed, expected))
    if len(lines) != len(right):
        return f"{len(lines)} lines, {len(right)} are right"
    for number, (line, other) in enumerate(zip(lines, right, strict=True), 1):
        if not same_line(line, other):
            return f"line {number} is {line[:100]!r}, {other[:100]!r} is right"
    return ""


def run_failure(program: Program) -> Verdict | None:
    """The verdict on a run that failed before its output could be compared; None if it ended normally."""
    if verdict := exceeded([program]):
        return verdict
    if program.code is None:
        return Verdict("sandbox error", message(program))
    if program.code == 0:
        return None
    text = message(program)
    last = text.strip().rpartition("\n")[2]
    missing = re.match(r"ModuleNotFoundError: No module named '(\w+)", last)
    if missing and missing[1] not in sys.stdlib_module_names:
        return Verdict("environment error", last)
    if re.match("(Syntax|Indentation|Tab)Error", last):
        return Verdict("compile error", text)
    return Verdict("memory" if last.startswith("MemoryError") else "exception", text or f"exit code {program.code}")


class StdioJudge:
    """Judges Python programs that read standard input.

    Args:
        limits: of the run of one case.
        packages: what programs may import beside the standard library.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, packages: Packages):
        self.sandbox, self.limits, self.packages = sandbox, limits, packages

    def judge(self, problem: Problem, code: str) -> Verdict:
        """The verdict on a program, at the first case that it fails."""
        for number, (input_text, expected) in enumerate(json.loads(problem.tests), 1):
            verdict = self.judge_case(problem, problem.preamble + code, input_text, expected)
            if verdict.outcome != "passed":
                return Verdict(verdict.outcome, f"case {number}: {verdict.detail}"[:DETAIL])
        return Verdict("passed", "")

    def judge_replies(self, problem: Problem, replies: bytes) -> Verdict:
        """The verdict on a program of which only its output is known."""
        return self.judge(problem, f"import sys\nsys.stdout.buffer.write({replies!r})")

    def judge_case(self, problem: Problem, program: str, input_text: str, expected: str) -> Verdict:
        folders = self.packages.of(problem, "candidate")
        with memory_file(input_text.encode(errors="replace")) as stdin:
            running = self.sandbox.start(
                [*self.sandbox.python, "/tmp/solution.py"],
                replace(self.limits, output=2 * len(expected) + KEPT),
                folders=folders,
                files={"/tmp/solution.py": program.encode(errors="replace")},
                environment={"PYTHONPATH": ":".join(folders)} if folders else None,
                stdin=stdin.fileno(),
            )
        wait([running], lambda: not running.open)
        if failure := run_failure(running):
            return failure
        if len(running.stdout) >= running.limits.output:  # the rest was not kept
            return Verdict("wrong", f"more than {running.limits.output} bytes of output")
        if wrong := difference(running.stdout.decode(errors="replace"), expected):
            return Verdict("wrong", wrong)
        return Verdict("passed", "")
