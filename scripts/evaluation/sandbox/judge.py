"""What became of generated code under a problem's tests: an outcome that the code itself cannot choose.

    verdict = Judge(probe.sandbox(), {"timeout": 10, "memory_megabytes": 1024}).judge(problem, code)

Python code answers a judge in another sandbox (`guest.py`). Compiled code is built without its tests, linked to them
and run; it has passed when the tests, at their end, print a secret that was in nothing the code could read. What makes
the programs of each language is in `toolchains.py`.
"""

import ast
import marshal
import os
import re
import secrets
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from scripts.common.progress import Progress
from scripts.evaluation.benchmarks.formats import Problem
from scripts.evaluation.sandbox import compiled_programs, guest
from scripts.evaluation.sandbox.bubblewrap import OUTPUT, Box, Limits, Sandbox, watch
from scripts.evaluation.sandbox.compilers import TOOLCHAINS, Compilers

OUTCOMES = (
    "passed",
    "wrong",
    "exception",
    "compile error",
    "timeout",
    "memory",
    "environment error",
    "sandbox error",
)

# Characters kept of a message.
DETAIL = 1000
SIGXCPU = 24

COMPILING = Limits(seconds=120, memory=4 << 30, address_space=False, processes=256, scratch=512 << 20, output=OUTPUT)

# Compiled here once, in the format of .pyc files (PEP 552): both processes of every problem would compile it again.
GUEST = MAGIC_NUMBER + bytes(12) + marshal.dumps(compile(Path(guest.__file__).read_bytes(), "guest.py", "exec"))


@dataclass(frozen=True)
class Verdict:
    """One of `OUTCOMES`, and what was said about it."""

    outcome: str
    detail: str


def limited(boxes: Iterable[Box]) -> Verdict | None:
    """The verdict on programs of which one was ended for what it took."""
    for box in boxes:
        if box.ended == "output":
            return Verdict("exception", "more output than 64 MB")
        if box.ended:
            return Verdict(box.ended, f"more than {box.limits.seconds} s" if box.ended == "timeout" else "")
        if box.code == 128 + SIGXCPU:
            return Verdict("timeout", f"more than {box.limits.seconds} s of CPU time")
    return None


def message(box: Box) -> str:
    """The end of what a program wrote to standard error, without addresses and names that differ from run to run."""
    said = re.sub(r"0x[0-9a-f]{6,}|(?<=/tmp/cc)\w+", "", box.stderr.decode(errors="replace"))
    return said[-DETAIL:]


class Judge:
    """Judges code in the sandboxes of one mode.

    Args:
        settings: `timeout` (seconds of wall clock) and `memory_megabytes` of a program.
    """

    def __init__(self, sandbox: Sandbox, settings: dict):
        self.sandbox, self.compilers = sandbox, Compilers()
        self.limits = Limits(settings["timeout"], settings["memory_megabytes"] << 20)

    def judge(self, problem: Problem, code: str) -> Verdict:
        """Whether a whole program, as `prompts.program` makes it of a completion, passes the problem's tests."""
        return self.judge_python(problem, code) if problem.language == "python" else self.judge_compiled(problem, code)

    def judge_python(self, problem: Problem, code: str) -> Verdict:
        asked, questions = os.pipe()
        answers, answered = os.pipe()

        def start(role: str, reading: int, writing: int, files: dict[str, str], stdout: int) -> Box:
            paths = [f"/tmp/{name}" for name in files]
            return self.sandbox.start(
                [*self.sandbox.python, "/tmp/guest.pyc", role, str(reading), str(writing), *paths, problem.entry],
                self.limits,
                files={"/tmp/guest.pyc": GUEST, **dict(zip(paths, map(encoded, files.values()), strict=True))},
                stdout=stdout,
                descriptors=(reading, writing),
            )

        try:
            sources = {"prompt.py": problem.head, "tests.py": problem.tests}
            judge = start("judge", answers, questions, sources, subprocess.PIPE)
            candidate = start("candidate", asked, answered, {"solution.py": code}, subprocess.DEVNULL)
        finally:
            for descriptor in (asked, questions, answers, answered):
                os.close(descriptor)

        def gone() -> bool:
            return bytes(judge.stdout).startswith(b"('gone'")

        watch([judge, candidate], lambda: not judge.open and not (gone() and candidate.open))
        if verdict := limited([judge, candidate]):
            return verdict
        if gone() and candidate.code is not None:
            return Verdict("exception", f"the program ended, exit code {candidate.code}: {message(candidate)}"[:DETAIL])
        try:
            outcome, detail = ast.literal_eval(judge.stdout.decode())
        except (ValueError, SyntaxError):
            return Verdict("sandbox error", f"no verdict: {message(judge)}{message(candidate)}"[-DETAIL:])
        return Verdict("sandbox error" if outcome == "gone" else outcome, (detail or message(candidate))[:DETAIL])

    def compiled(
        self, problem: Problem, step: str, sources: dict[str, str], parts: dict[str, bytes]
    ) -> bytes | Verdict:
        """What a compiler makes of source files, with the parts made before, or why it makes nothing."""
        chain, shown = TOOLCHAINS[problem.language], self.compilers.of(problem.language)
        environment = {"PYTHON": " ".join(self.sandbox.python), "TYPE": compiled_programs.java_type(problem)}
        box = self.sandbox.run(
            ["/bin/sh", "-ec", f"{{ {getattr(chain, step)}; }} >&2; cat /tmp/out"],
            COMPILING,
            folders=shown.folders,
            files={**shown.files, **parts, **{f"/tmp/{name}": encoded(text) for name, text in sources.items()}},
            environment={**shown.environment, **environment},
        )
        if box.ended:
            return Verdict("compile error", f"the compiler was ended: {box.ended}")
        if box.code is None:
            return Verdict("sandbox error", message(box))
        if box.code:
            missing = re.search(chain.missing, box.stderr.decode(errors="replace"))
            return Verdict("environment error" if missing else "compile error", message(box))
        return bytes(box.stdout)

    def judge_compiled(self, problem: Problem, code: str) -> Verdict:
        chain, shown = TOOLCHAINS[problem.language], self.compilers.of(problem.language)
        half, key = secrets.token_bytes(16), secrets.token_bytes(16)
        part = self.compiled(problem, "compile", compiled_programs.candidate(problem, code), {})
        if isinstance(part, Verdict):
            return part
        tests = compiled_programs.tests(problem, key)
        made = self.compiled(problem, "link", tests, {chain.linkable: part})
        if isinstance(made, Verdict):
            return made
        files = {**shown.files, chain.linkable: part}
        if problem.language == "java":
            main = compiled_programs.java_main(tests["Tests.java"])
            run = [word.format(megabytes=self.limits.memory >> 21, main=main) for word in chain.run]
            ran = self.sandbox.run(
                run,
                replace(self.limits, address_space=False),
                half + made,
                folders=shown.folders,
                files=files,
                environment=shown.environment,
            )
        else:
            limits = replace(self.limits, address_space=problem.language != "go")
            ran = self.sandbox.run(list(chain.run), limits, half, files={**files, "/run/program": made})
        if verdict := limited([ran]):
            return verdict
        if ran.code is None:
            return Verdict("sandbox error", message(ran))
        if bytes(a ^ b for a, b in zip(half, key, strict=True)) in ran.stdout:
            return Verdict("passed", "")
        said = ran.stderr.decode(errors="replace")
        for outcome, pattern in (("memory", chain.memory), ("wrong", chain.wrong)):
            if re.search(pattern, said, re.M):
                return Verdict(outcome, message(ran))
        return Verdict("exception", f"exit code {ran.code}: {message(ran)}"[:DETAIL])


def encoded(text: str) -> bytes:
    return text.encode(errors="replace")


def judge_all(judge: Judge, programs: list[tuple[Problem, str]], label: str = "judge") -> list[Verdict]:
    """Judge programs, as many at a time as there are cores, in their order."""
    progress = Progress(label, "programs", len(programs))

    def one(item: tuple[Problem, str]) -> Verdict:
        verdict = judge.judge(*item)
        progress.add()
        return verdict

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        verdicts = list(pool.map(one, programs))
    progress.end()
    return verdicts
