"""Run a generated program under a problem's tests; the program itself cannot influence the verdict.

    judge = Judge(probe.sandbox(), Limits(seconds=10, memory=1 << 30))
    judge.judge(problem, program)          # Verdict("passed", "")

Tests and program run in two sandboxes and exchange calls and results: `sandbox/` has a judge for each kind of language.
Functions of a repository, with the repository's own tests: repositories/repository_judge.py, called in the same way.
"""

import os
from concurrent.futures import ThreadPoolExecutor

from scripts.common.progress import Progress
from scripts.judge.problem import FAULTS, Problem, Verdict
from scripts.judge.sandbox import libraries
from scripts.judge.sandbox.bubblewrap import Sandbox
from scripts.judge.sandbox.compiled_judge import CompiledJudge
from scripts.judge.sandbox.libraries import Libraries
from scripts.judge.sandbox.packages import NONE, Packages
from scripts.judge.sandbox.program import DETAIL, Limits
from scripts.judge.sandbox.python_judge import PythonJudge
from scripts.judge.sandbox.stdio_judge import StdioJudge


class Judge:
    """Judges programs in all languages.

    Args:
        limits: of one program.
        packages: what Python programs and their tests may import beside the standard library.
        libraries: what Java and Go programs and their tests may use.
    """

    def __init__(
        self, sandbox: Sandbox, limits: Limits, packages: Packages = NONE, libraries: Libraries = libraries.NONE
    ):
        self.limits, self.packages = limits, packages
        self.python = PythonJudge(sandbox, limits, packages)
        self.stdio = StdioJudge(sandbox, limits, packages)
        self.compiled = CompiledJudge(sandbox, limits, libraries)

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

    def judge_of(self, problem: Problem) -> PythonJudge | StdioJudge | CompiledJudge:
        if problem.judge == "stdio":
            return self.stdio
        return self.python if problem.language == "python" else self.compiled

    def missing(self, problem: Problem) -> set[str]:
        """The packages and libraries that a problem needs and nobody has.

        Raises:
            UserError: the compiler is not installed.
        """
        if problem.language == "python":
            return self.packages.missing(problem)
        return self.compiled.missing(problem)

    def check(self, language: str) -> None:
        """Check that a language can be judged here.

        Raises:
            UserError: its compiler is not installed.
        """
        if language != "python":
            self.compiled.compilers.of(language)


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
