"""Run a generated program under a problem's tests; the program itself cannot influence the verdict.

    judge = Judge(probe.sandbox(), Limits(seconds=10, memory=1 << 30))
    judge.judge(problem, program)          # Verdict("passed", "")

Tests and program run in two sandboxes and exchange calls and results: `sandbox/` has a judge for each kind of language.
"""

import ast
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal, InvalidOperation

from scripts.common.progress import Progress
from scripts.judge.problem import FAULTS, Problem, Verdict
from scripts.judge.sandbox import guest, remote_objects, values
from scripts.judge.sandbox.bubblewrap import Sandbox, memory_file, replies_in
from scripts.judge.sandbox.cpp_judge import CppJudge
from scripts.judge.sandbox.packages import NONE, ONE_THREAD, Packages, bundle, with_imports
from scripts.judge.sandbox.program import DETAIL, KEPT, Limits, Program, exceeded, message, two_pipes, wait

GUEST = bundle((values, remote_objects, guest), "guest.py", "main()")
LOADED = b"['value', None, None, None]\n"  # the reply of a program that was loaded


class PythonJudge:
    """Judges code in Python. `limits`: of one program; `packages`: what programs and their tests may import beside the
    standard library."""

    def __init__(self, sandbox: Sandbox, limits: Limits, packages: Packages):
        self.sandbox, self.limits, self.packages = sandbox, limits, packages

    def judge(self, problem: Problem, code: str) -> Verdict:
        """The verdict on a program."""
        source = problem.preamble + code + with_imports(problem.imports, code)
        with two_pipes() as pipes:
            tests = self.start_tests(problem, pipes.reply_reader, pipes.call_writer)
            program = self.start(
                "candidate", problem, (pipes.call_reader, pipes.reply_writer), {"/tmp/solution.py": source}, []
            )
        return self.verdict(tests, program)

    def judge_replies(self, problem: Problem, replies: bytes) -> Verdict:
        """The verdict on a program that was loaded, and of which else only its replies are known."""
        with replies_in(LOADED + replies) as (reply_reader, call_writer):
            tests = self.start_tests(problem, reply_reader, call_writer)
        return self.verdict(tests, None)

    def start_tests(self, problem: Problem, reply_reader: int, call_writer: int) -> Program:
        # with a preamble a program is whole, and the head, as `class Solution:`, may be none
        sources = {"/tmp/prompt.py": "" if problem.preamble else problem.head, "/tmp/tests.py": problem.tests}
        names = " ".join(problem.defined or (problem.entry,))
        return self.start("judge", problem, (reply_reader, call_writer), sources, [names])

    def start(
        self, role: str, problem: Problem, pipe_ends: tuple[int, int], sources: dict[str, str], names: list[str]
    ) -> Program:
        """Start one of the two processes. `sources`: texts by their paths in the sandbox; `names`: the names that the
        tests take from the program, in one text."""
        folders = self.packages.of(problem, role)
        files = {path: text.encode(errors="replace") for path, text in sources.items()}
        arguments = [role, *map(str, pipe_ends), *sources, *names, *folders]
        return self.sandbox.start(
            [*self.sandbox.python, "/tmp/guest.pyc", *arguments],
            self.limits,
            folders=folders,
            files={"/tmp/guest.pyc": GUEST, **files},
            environment=ONE_THREAD if folders else None,
            stdout=subprocess.PIPE if role == "judge" else subprocess.DEVNULL,
            descriptors=pipe_ends,
        )

    def verdict(self, tests: Program, program: Program | None) -> Verdict:
        """The verdict of the tests' process. `program`: the other process; None if there is none."""
        programs = [tests]
        if program is not None:
            programs.append(program)

        def program_gone() -> bool:
            return bytes(tests.stdout).startswith(b"('gone'")

        def finished() -> bool:
            if tests.open:
                return False
            return program is None or not (program_gone() and program.open)

        wait(programs, finished)
        verdict = exceeded(programs)
        if verdict:
            return verdict
        written = code = ""
        if program is not None:
            written, code = message(program), f", exit code {program.code}"
        if program_gone() and (program is None or program.code is not None):
            return Verdict("exception", f"the program ended{code}: {written}"[:DETAIL])
        try:
            outcome, detail = ast.literal_eval(tests.stdout.decode())
        except (ValueError, SyntaxError):
            return Verdict("sandbox error", f"no verdict: {message(tests)}{written}"[-DETAIL:])
        return Verdict("sandbox error" if outcome == "gone" else outcome, (detail or written)[:DETAIL])


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
    lines, right = (list(map(str.strip, text.strip().split("\n"))) for text in (printed, expected))
    if len(lines) != len(right):
        return f"{len(lines)} lines, {len(right)} are right"
    for number, (line, other) in enumerate(zip(lines, right, strict=True), 1):
        if not same_line(line, other):
            return f"line {number} is {line[:100]!r}, {other[:100]!r} is right"
    return ""


def run_failure(program: Program) -> Verdict | None:
    """The verdict on a run that failed before its output could be compared; None if it ended normally."""
    verdict = exceeded([program])
    if verdict:
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

    Each case is a run of its own in a sandbox of its own, with the limits of one program. The expected outputs are
    never in a sandbox, so a program can only print what it computes. Compared as LiveCodeBench does (lcb_runner,
    testing_util.py): line by line without white space at the ends; lines that differ are the same if both hold the
    same decimal numbers.

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
                replace(self.limits, output=2 * len(expected.encode(errors="replace")) + KEPT),
                folders=folders,
                files={"/tmp/solution.py": program.encode(errors="replace")},
                environment={"PYTHONPATH": ":".join(folders)} if folders else None,
                stdin=stdin.fileno(),
            )
        wait([running], lambda: not running.open)
        failure = run_failure(running)
        if failure:
            return failure
        if len(running.stdout) >= running.limits.output:  # the rest was not kept
            return Verdict("wrong", f"more than {running.limits.output} bytes of output")
        wrong = difference(running.stdout.decode(errors="replace"), expected)
        if wrong:
            return Verdict("wrong", wrong)
        return Verdict("passed", "")


class Judge:
    """Judges programs in all languages. `limits`: of one program; `packages`: what Python programs and their tests may
    import beside the standard library."""

    def __init__(self, sandbox: Sandbox, limits: Limits, packages: Packages = NONE):
        self.limits, self.packages = limits, packages
        self.python = PythonJudge(sandbox, limits, packages)
        self.stdio = StdioJudge(sandbox, limits, packages)
        self.cpp = CppJudge(sandbox, limits)

    def judge(self, problem: Problem, program: str) -> Verdict:
        """The verdict on a program that `program` of benchmarks/prompts.py built from a completion.

        An outcome of FAULTS is given only if the tests or the sandbox fail whatever the program replies: no program
        may have itself, and with it the benchmark, left out of the score.

        Raises:
            UserError: the compiler is not installed.
        """
        if problem.unjudged:
            return Verdict("unjudged", problem.unjudged)
        judge = self.judge_of(problem)
        verdict = judge.judge(problem, program)
        if verdict.outcome == "sandbox error":  # as when this machine had no process left
            verdict = judge.judge(problem, program)
        if verdict.outcome in FAULTS and judge.judge_replies(problem, b"").outcome not in FAULTS:
            return Verdict("exception", f"what the program replied ended its tests: {verdict.detail}"[:DETAIL])
        return verdict

    def judge_of(self, problem: Problem) -> PythonJudge | StdioJudge | CppJudge:
        if problem.judge == "stdio":
            return self.stdio
        if problem.language == "python":
            return self.python
        return self.cpp

    def missing(self, problem: Problem) -> set[str]:
        """The Python packages that a problem needs and nobody has."""
        if problem.language == "python":
            return self.packages.missing(problem)
        return set()

    def check(self, language: str) -> None:
        """Check that a language can be judged here. Raises UserError: its compiler is not installed."""
        if language == "cpp":
            self.cpp.check()


def judge_all(judge: Judge, programs: list[tuple[Problem, str]], label: str = "judge") -> list[Verdict]:
    """The verdicts in the order of the programs; as many run at a time as there are cores."""
    progress = Progress(label, "programs", len(programs))

    def judge_program(item: tuple[Problem, str]) -> Verdict:
        verdict = judge.judge(*item)
        progress.add()
        return verdict

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        verdicts = list(pool.map(judge_program, programs))
    progress.end()
    return verdicts
