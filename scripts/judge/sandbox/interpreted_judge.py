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
from scripts.judge.problem import Problem
from scripts.judge.sandbox.bubblewrap import Sandbox
from scripts.judge.sandbox.compiled_programs import CHANNELS, divided
from scripts.judge.sandbox.exit_causes import DETAIL, exceeded, message
from scripts.judge.sandbox.program import Limits, Program, two_pipes, wait
from scripts.judge.sandbox.typescript import TypeScript, installed
from scripts.judge.sandbox.verdict import Verdict

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
        if problem.language != "typescript":
            return judge_interpreted(self.sandbox, self.limits, problem, code)
        translated = self.typescript.translated(problem, code)
        return (
            translated if isinstance(translated, Verdict) else judge_interpreted(self.sandbox, self.limits, *translated)
        )


def judge_interpreted(sandbox: Sandbox, limits: Limits, problem: Problem, code: str) -> Verdict:
    """The verdict on a program that its language's interpreter runs as it is."""
    language, entry = problem.language, problem.entry
    script, name = language in INTERPRETERS, f"/opt/channel{Path(CHANNEL[language]).suffix}"
    words = [word.format(megabytes=limits.memory >> 21) for word in INTERPRETERS.get(language, ())]
    interpreter = ["/usr/bin/env", *words, name]

    def start(argv: list[str], reading: int, writing: int, file: str, source: str) -> Program:
        return sandbox.start(
            argv,
            replace(limits, address_space=language != "javascript"),
            files={name: (CHANNELS / CHANNEL[language]).read_bytes(), file: source.encode(errors="replace")},
            descriptors=(reading, writing),
            stdout=subprocess.DEVNULL,
        )

    with two_pipes() as pipes:
        pair = (str(pipes.reply_reader), str(pipes.call_writer))
        tests = tests_of(problem, " ".join(sandbox.python), pipes.reply_reader, pipes.call_writer)
        argv = [*interpreter, "tests", *pair, "/opt/tests", entry] if script else ["/bin/bash", "/opt/tests"]
        judge = start(argv, pipes.reply_reader, pipes.call_writer, "/opt/tests", tests)
        pair = (str(pipes.call_reader), str(pipes.reply_writer))
        argv = [*interpreter, "candidate", *pair] if script else [*sandbox.python, name, "serve", *pair]
        called = start([*argv, "/opt/solution", entry], pipes.call_reader, pipes.reply_writer, "/opt/solution", code)
    wait([judge, called], lambda: not judge.open and not (judge.code == GONE and called.open))
    if judge.code == 0:
        return Verdict("passed", "")
    if verdict := exceeded([judge, called]):
        return verdict
    if judge.code is None or judge.code in (126, 127):
        return Verdict("sandbox error", message(judge))
    if judge.code == UNCALLED:
        return Verdict("test error", "the tests never call the program")
    detail = message(called)
    if UNSUPPORTED in (judge.code, called.code):
        return Verdict("unjudged", message(judge) or detail)
    if judge.code in (GONE, UNREADABLE, RAISED):
        if re.search("heap out of memory|ReportOOMFailure|Allowed memory size", called.stderr.decode(errors="replace")):
            return Verdict("memory", detail)
        kind = "compile error" if re.search("SyntaxError: |Parse error: ", detail) else "exception"
        return Verdict(kind, (detail or message(judge))[:DETAIL])
    if not script and "syntax error" in detail:
        return Verdict("compile error", detail)
    return Verdict("wrong", message(judge) or detail)
