"""Run generated code under a problem's tests; the code itself cannot influence the outcome.

    verdict = Judge(probe.sandbox(), Limits(seconds=10, memory=1 << 30)).judge(problem, code)

The tests run in one sandbox and the code in another; they exchange calls and results. Python: `guest.py`; compiled
languages: `compiled_judge.py`.
"""

import ast
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

from scripts.common.progress import Progress
from scripts.judge.problem import Problem
from scripts.judge.sandbox import guest, libraries, remote_objects, values
from scripts.judge.sandbox.bubblewrap import Sandbox
from scripts.judge.sandbox.compiled_judge import CompiledJudge
from scripts.judge.sandbox.exit_causes import DETAIL, exceeded, message
from scripts.judge.sandbox.guest_programs import bundle
from scripts.judge.sandbox.interpreted_judge import NEEDED, InterpretedJudge, check_interpreter
from scripts.judge.sandbox.libraries import Libraries
from scripts.judge.sandbox.packages import NONE, ONE_THREAD, Packages, with_imports
from scripts.judge.sandbox.program import Limits, Program, two_pipes, wait
from scripts.judge.sandbox.stdio_judge import judge_stdio
from scripts.judge.sandbox.verdict import Verdict

GUEST = bundle((values, remote_objects, guest), "guest.py", "main()")


class Judge:
    """Judges code in sandboxes.

    Args:
        limits: of one program.
        packages: what Python programs and their tests may import beside the standard library.
        libraries: what Java and Go programs and their tests may use.
    """

    def __init__(
        self, sandbox: Sandbox, limits: Limits, packages: Packages = NONE, libraries: Libraries = libraries.NONE
    ):
        self.sandbox, self.limits, self.packages = sandbox, limits, packages
        self.compiled, self.interpreted = CompiledJudge(sandbox, limits, libraries), InterpretedJudge(sandbox, limits)

    def missing(self, problem: Problem) -> set[str]:
        """The packages and libraries that a problem needs and nobody has."""
        if problem.language == "python":
            return self.packages.missing(problem)
        return set() if problem.language in NEEDED else self.compiled.missing(problem)

    def judge(self, problem: Problem, code: str) -> Verdict:
        """The verdict on a program that `program` of benchmarks/prompts.py built from a completion."""
        if problem.unjudged:
            return Verdict("unjudged", problem.unjudged)
        if problem.judge == "stdio":
            return judge_stdio(self.sandbox, self.limits, problem, code, self.packages.of(problem, "candidate"))
        if problem.language == "python":
            return self.judge_python(problem, code)
        if problem.language in NEEDED:
            return self.interpreted.judge(problem, code)
        return self.compiled.judge(problem, code)

    def check(self, language: str) -> None:
        """Check that a language can be judged here.

        Raises:
            UserError: its compiler or interpreter is not installed.
        """
        if language in NEEDED:
            check_interpreter(language)
        elif language != "python":
            self.compiled.compilers.of(language)

    def judge_python(self, problem: Problem, code: str) -> Verdict:
        def start(
            role: str, reading: int, writing: int, files: dict[str, str], candidate_names: list[str], stdout: int
        ) -> Program:
            paths, folders = [f"/tmp/{name}" for name in files], self.packages.of(problem, role)
            return self.sandbox.start(
                [
                    *self.sandbox.python,
                    "/tmp/guest.pyc",
                    role,
                    str(reading),
                    str(writing),
                    *paths,
                    *candidate_names,
                    *folders,
                ],
                self.limits,
                folders=folders,
                files={"/tmp/guest.pyc": GUEST, **dict(zip(paths, map(encoded, files.values()), strict=True))},
                environment=ONE_THREAD if folders else None,
                stdout=stdout,
                descriptors=(reading, writing),
            )

        with two_pipes() as pipes:
            # with a preamble a program is whole, and the head, as `class Solution:`, may be none
            head = "" if problem.preamble else problem.head
            sources = {"prompt.py": head, "tests.py": problem.tests}
            candidate_names = [" ".join(problem.defined or (problem.entry,))]
            judge = start("judge", pipes.reply_reader, pipes.call_writer, sources, candidate_names, subprocess.PIPE)
            candidate = start(
                "candidate",
                pipes.call_reader,
                pipes.reply_writer,
                {"solution.py": problem.preamble + code + with_imports(problem.imports, code)},
                [],
                subprocess.DEVNULL,
            )

        def candidate_gone() -> bool:
            return bytes(judge.stdout).startswith(b"('gone'")

        wait([judge, candidate], lambda: not judge.open and not (candidate_gone() and candidate.open))
        if verdict := exceeded([judge, candidate]):
            return verdict
        if candidate_gone() and candidate.code is not None:
            return Verdict("exception", f"the program ended, exit code {candidate.code}: {message(candidate)}"[:DETAIL])
        try:
            outcome, detail = ast.literal_eval(judge.stdout.decode())
        except (ValueError, SyntaxError):
            return Verdict("sandbox error", f"no verdict: {message(judge)}{message(candidate)}"[-DETAIL:])
        return Verdict("sandbox error" if outcome == "gone" else outcome, (detail or message(candidate))[:DETAIL])


def encoded(text: str) -> bytes:
    return text.encode(errors="replace")


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
