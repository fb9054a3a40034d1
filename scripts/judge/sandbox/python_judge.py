"""Judge programs in Python: the tests' process calls the program's, each in a sandbox of its own (guest.py).

verdict = PythonJudge(sandbox, limits, packages).judge(problem, code)
"""

import ast
import subprocess

from scripts.judge.problem import Problem, Verdict
from scripts.judge.sandbox import guest, remote_objects, values
from scripts.judge.sandbox.bubblewrap import Sandbox, replies_in
from scripts.judge.sandbox.packages import ONE_THREAD, Packages, bundle, with_imports
from scripts.judge.sandbox.program import DETAIL, Limits, Program, exceeded, message, two_pipes, wait

GUEST = bundle((values, remote_objects, guest), "guest.py", "main()")
LOADED = b"['value', None, None, None]\n"  # the reply of a program that was loaded


class PythonJudge:
    """Judges code in Python.

    Args:
        limits: of one program.
        packages: what programs and their tests may import beside the standard library.
    """

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
        """Start one of the two processes.

        Args:
            sources: texts by their paths in the sandbox.
            names: the names that the tests take from the program, in one text.
        """
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
        """The verdict of the tests' process.

        Args:
            program: the other process; None if there is none.
        """
        programs = [tests] if program is None else [tests, program]

        def program_gone() -> bool:
            return bytes(tests.stdout).startswith(b"('gone'")

        def finished() -> bool:
            if tests.open:
                return False
            return program is None or not (program_gone() and program.open)

        wait(programs, finished)
        if verdict := exceeded(programs):
            return verdict
        written = "" if program is None else message(program)
        if program_gone() and (program is None or program.code is not None):
            code = "" if program is None else f", exit code {program.code}"
            return Verdict("exception", f"the program ended{code}: {written}"[:DETAIL])
        try:
            outcome, detail = ast.literal_eval(tests.stdout.decode())
        except (ValueError, SyntaxError):
            return Verdict("sandbox error", f"no verdict: {message(tests)}{written}"[-DETAIL:])
        return Verdict("sandbox error" if outcome == "gone" else outcome, (detail or written)[:DETAIL])
