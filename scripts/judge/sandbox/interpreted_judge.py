"""Judge programs in JavaScript, TypeScript, PHP and Shell: the tests' process calls the program's, as in Python.

    verdict = InterpretedJudge(sandbox, limits).judge(problem, code)

Each side is in a sandbox of its own. In the tests' process the function under test is a stub that sends its arguments
over a pipe (`channels/`); the tests' exit code is the verdict.
"""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from scripts.common.errors import UserError
from scripts.judge.outcomes import Verdict
from scripts.judge.problem import Problem
from scripts.judge.sandbox.bubblewrap import Sandbox, replies_in
from scripts.judge.sandbox.compiled_programs import CHANNELS, divided
from scripts.judge.sandbox.exit_causes import DETAIL, exceeded, message
from scripts.judge.sandbox.program import Limits, Program, two_pipes, wait
from scripts.judge.sandbox.typescript import TypeScript, installed

# what a language needs: its interpreter and the Debian package
NEEDED = {
    "javascript": ("node", "nodejs"),
    "typescript": ("node", "nodejs"),
    "php": ("php", "php-cli"),
    "shell": ("bash", "bash"),
}
PHP_FOLDER = Path("/usr/lib/php")  # Debian's, an extension of PHP is a file in a folder of its version
CHANNEL = {"javascript": "channel.js", "php": "channel.php", "shell": "channel_sh.py"}
# exit codes of the channel: the tests have called nothing; the program has ended; its answer is unreadable; a value
# cannot be passed; it threw
UNCALLED, GONE, UNREADABLE, UNSUPPORTED, RAISED = 119, 120, 121, 122, 123
OUT_OF_MEMORY = "heap out of memory|ReportOOMFailure|Allowed memory size"
# Shell has a channel in Python instead; /etc is not in the sandbox, so PHP's extensions are named
EXTENSIONS = [name for name in ("ctype", "iconv", "mbstring", "tokenizer") if any(PHP_FOLDER.glob(f"*/{name}.so"))]
INTERPRETERS = {
    "javascript": ("node", "--max-old-space-size={megabytes}"),
    "php": (
        *("php", "-n", "-d", "memory_limit={megabytes}M", "-d", "display_errors=stderr", "-d", "log_errors=0"),
        *(word for name in EXTENSIONS for word in ("-d", f"extension={name}")),
    ),
}


def check_interpreter(language: str) -> None:
    """Check that a language's interpreter is installed.

    Raises:
        UserError: it is not.
    """
    program, package = NEEDED[language]
    if not shutil.which(program, path="/usr/bin:/bin"):
        raise UserError(f"evaluation.code: {language} problems need {program}; install it ({package})")
    if language == "typescript":
        installed()


def tests_of(problem: Problem, python: str, reading: int, writing: int) -> str:
    """The source of the tests' program."""
    before, _ = divided(problem)
    body = problem.tests.lstrip().removeprefix("}") if problem.stops else problem.tests
    if problem.language in INTERPRETERS:  # where the channel makes the stub
        return f"{before}{body}"
    called = "/tmp/stagecraft-called"
    stub = f'{problem.entry}() {{\n    : > {called}\n    {python} /opt/channel.py call {reading} {writing} "$@"\n}}\n'
    last = f"[ ! -e /tmp/stagecraft-gone ] || exit {GONE}; [ $code != 0 ] || [ -e {called} ] || exit {UNCALLED}"
    last = f"trap 'code=$?; {last}' EXIT\n"
    return f"{before}{stub}{last}{body}"


class InterpretedJudge:
    """Judges code in interpreted languages.

    Args:
        limits: of one program.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits):
        self.sandbox, self.limits, self.typescript = sandbox, limits, TypeScript(sandbox)

    def judge(self, problem: Problem, code: str) -> Verdict:
        """The verdict on a program."""
        if problem.language == "typescript":
            translated = self.typescript.translated(problem, code)
            if isinstance(translated, Verdict):
                return translated
            problem, code = translated
        with two_pipes() as pipes:
            tests = self.start_tests(problem, pipes.reply_reader, pipes.call_writer)
            role = "candidate" if problem.language in INTERPRETERS else "serve"
            ends = (pipes.call_reader, pipes.reply_writer)
            words = [*self.channel(problem.language), role, *map(str, ends), "/opt/solution", problem.entry]
            program = self.start(problem.language, words, ends, {"/opt/solution": code})
        return verdict_of(problem.language, tests, program)

    def judge_replies(self, problem: Problem, replies: bytes) -> Verdict:
        """The verdict on a program of which only its replies are known."""
        if problem.language == "typescript":
            problem = self.typescript.tests(problem)
            if isinstance(problem, Verdict):
                return problem
        with replies_in(replies) as (reply_reader, call_writer):
            tests = self.start_tests(problem, reply_reader, call_writer)
        return verdict_of(problem.language, tests, None)

    def channel(self, language: str) -> list[str]:
        """The beginning of the command that starts a side of the channel."""
        if language == "shell":
            return [*self.sandbox.python, channel_path(language)]
        interpreter = [word.format(megabytes=self.limits.memory >> 21) for word in INTERPRETERS[language]]
        return ["/usr/bin/env", *interpreter, channel_path(language)]

    def start_tests(self, problem: Problem, reply_reader: int, call_writer: int) -> Program:
        ends = (reply_reader, call_writer)
        source = tests_of(problem, " ".join(self.sandbox.python), *ends)
        words = ["/bin/bash", "/opt/tests"]
        if problem.language in INTERPRETERS:
            words = [*self.channel(problem.language), "tests", *map(str, ends), "/opt/tests", problem.entry]
        return self.start(problem.language, words, ends, {"/opt/tests": source})

    def start(self, language: str, words: list[str], pipe_ends: tuple[int, int], sources: dict[str, str]) -> Program:
        channel = (CHANNELS / CHANNEL[language]).read_bytes()
        texts = {path: text.encode(errors="replace") for path, text in sources.items()}
        return self.sandbox.start(
            words,
            replace(self.limits, address_space=language != "javascript"),
            files={channel_path(language): channel, **texts},
            descriptors=pipe_ends,
            stdout=subprocess.DEVNULL,
        )


def channel_path(language: str) -> str:
    """Where a sandbox has the channel."""
    return f"/opt/channel{Path(CHANNEL[language]).suffix}"


def verdict_of(language: str, tests: Program, program: Program | None) -> Verdict:
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
        kind = "compile error" if re.search("SyntaxError: |Parse error: ", detail) else "exception"
        return Verdict(kind, (detail or message(tests))[:DETAIL])
    if language == "shell" and "syntax error" in detail:
        return Verdict("compile error", detail)
    return Verdict("wrong", message(tests) or detail)
