"""Judge programs in JavaScript: the tests' process calls the program's, as in Python.

    verdict = InterpretedJudge(sandbox, limits).judge(problem, code)

Each side is in a sandbox of its own. In the tests' process the function under test is a stub that sends its arguments
over a pipe (`channels/`); the tests' exit code is the verdict.
"""

import re
import shutil
import subprocess
from dataclasses import replace

from scripts.common.errors import UserError
from scripts.judge.outcomes import Verdict
from scripts.judge.problem import Problem
from scripts.judge.sandbox.bubblewrap import Sandbox, replies_in
from scripts.judge.sandbox.compiled_programs import CHANNELS, divided
from scripts.judge.sandbox.exit_causes import DETAIL, exceeded, message
from scripts.judge.sandbox.program import Limits, Program, two_pipes, wait

NEEDED = {"javascript": ("node", "nodejs")}  # what a language needs: its interpreter and the Debian package
CHANNEL = "/opt/channel.js"  # where a sandbox has it
# exit codes of the channel: the tests have called nothing; the program has ended; its answer is unreadable; a value
# cannot be passed; it threw
UNCALLED, GONE, UNREADABLE, UNSUPPORTED, RAISED = 119, 120, 121, 122, 123
OUT_OF_MEMORY = "heap out of memory|ReportOOMFailure"


def check_interpreter(language: str) -> None:
    """Check that a language's interpreter is installed.

    Raises:
        UserError: it is not.
    """
    program, package = NEEDED[language]
    if not shutil.which(program, path="/usr/bin:/bin"):
        raise UserError(f"evaluation.code: {language} problems need {program}; install it ({package})")


def tests_of(problem: Problem) -> str:
    """The source of the tests' program; the channel makes the stub of the function under test."""
    before, _ = divided(problem)
    body = problem.tests.lstrip().removeprefix("}") if problem.stops else problem.tests
    return f"{before}{body}"


class InterpretedJudge:
    """Judges code in JavaScript.

    Args:
        limits: of one program.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits):
        self.sandbox, self.limits = sandbox, limits

    def judge(self, problem: Problem, code: str) -> Verdict:
        """The verdict on a program."""
        with two_pipes() as pipes:
            tests = self.start_tests(problem, pipes.reply_reader, pipes.call_writer)
            program = self.start("candidate", (pipes.call_reader, pipes.reply_writer), code, problem.entry)
        return verdict_of(tests, program)

    def judge_replies(self, problem: Problem, replies: bytes) -> Verdict:
        """The verdict on a program of which only its replies are known."""
        with replies_in(replies) as (reply_reader, call_writer):
            tests = self.start_tests(problem, reply_reader, call_writer)
        return verdict_of(tests, None)

    def start_tests(self, problem: Problem, reply_reader: int, call_writer: int) -> Program:
        return self.start("tests", (reply_reader, call_writer), tests_of(problem), problem.entry)

    def start(self, role: str, pipe_ends: tuple[int, int], source: str, entry: str) -> Program:
        """Start one side of the channel, `tests` or `candidate`, with its source."""
        node = ["/usr/bin/env", "node", f"--max-old-space-size={self.limits.memory >> 21}"]
        return self.sandbox.start(
            [*node, CHANNEL, role, *map(str, pipe_ends), "/opt/source", entry],
            replace(self.limits, address_space=False),
            files={CHANNEL: (CHANNELS / "channel.js").read_bytes(), "/opt/source": source.encode(errors="replace")},
            descriptors=pipe_ends,
            stdout=subprocess.DEVNULL,
        )


def verdict_of(tests: Program, program: Program | None) -> Verdict:
    """The verdict of the tests' process.

    Args:
        program: the other process; None if there is none.
    """
    programs = [tests] if program is None else [tests, program]
    wait(programs, lambda: not tests.open and not (tests.code == GONE and programs[-1].open))
    if tests.code == 0:
        return Verdict("passed", "")
    if verdict := exceeded(programs):
        return verdict
    if tests.code is None or tests.code in (126, 127):
        return Verdict("sandbox error", message(tests))
    if tests.code == UNCALLED:
        return Verdict("test error", "the tests never call the program")
    detail = "" if program is None else message(program)
    if tests.code == UNSUPPORTED or (program and program.code == UNSUPPORTED):
        return Verdict("unjudged", message(tests) or detail)
    if tests.code in (GONE, UNREADABLE, RAISED):
        if program and re.search(OUT_OF_MEMORY, program.stderr.decode(errors="replace")):
            return Verdict("memory", detail)
        kind = "compile error" if re.search("SyntaxError: ", detail) else "exception"
        return Verdict(kind, (detail or message(tests))[:DETAIL])
    return Verdict("wrong", message(tests) or detail)
