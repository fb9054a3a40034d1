"""Run generated code under a problem's tests; the code itself cannot influence the outcome.

    verdict = Judge(probe.sandbox(), Limits(seconds=10, memory=1 << 30)).judge(problem, code)

Python code is called by a judge in another sandbox (`guest.py`). Compiled code is built without its tests, linked to
them and run; it has passed if the tests, at their end, print a secret that the code could not read anywhere. How the
programs of each language are built: `compilers.py`.
"""

import ast
import marshal
import os
import re
import secrets
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import MAGIC_NUMBER
from pathlib import Path

from scripts.common.progress import Progress
from scripts.evaluation.benchmarks.problem import Problem
from scripts.evaluation.sandbox import compiled_programs, guest, remote_objects, values
from scripts.evaluation.sandbox.bubblewrap import Sandbox
from scripts.evaluation.sandbox.compilers import TOOLCHAINS, Compilers
from scripts.evaluation.sandbox.packages import NONE, ONE_THREAD, Packages
from scripts.evaluation.sandbox.program import OUTPUT, Limits, Program, wait
from scripts.evaluation.sandbox.verdict import Verdict

# Characters kept of a message.
DETAIL = 1000
SIGXCPU = 24

COMPILING = Limits(seconds=120, memory=4 << 30, address_space=False, processes=256, scratch=512 << 20, output=OUTPUT)


def guest_program() -> bytes:
    """guest.py with what it imports as one program, in the format of .pyc files (PEP 552).

    Else both processes of every problem would compile it.
    """
    text = "".join(Path(module.__file__).read_text(encoding="utf-8") for module in (values, remote_objects, guest))
    alone = re.sub(r"^from scripts\.[^\n(]*(?:\([^)]*\))?\n", "", text, flags=re.M)
    return MAGIC_NUMBER + bytes(12) + marshal.dumps(compile(alone, "guest.py", "exec"))


GUEST = guest_program()


def exceeded(programs: Iterable[Program]) -> Verdict | None:
    """The verdict if one of the programs exceeded its limits."""
    for program in programs:
        if program.killed_for == "output":
            return Verdict("exception", "more output than 64 MB")
        if program.killed_for:
            detail = f"more than {program.limits.seconds} s" if program.killed_for == "timeout" else ""
            return Verdict(program.killed_for, detail)
        if program.code == 128 + SIGXCPU:
            return Verdict("timeout", f"more than {program.limits.seconds} s of CPU time")
    return None


def message(program: Program) -> str:
    """The end of a program's standard error, without addresses and names that differ from run to run."""
    text = re.sub(r"0x[0-9a-f]{6,}|(?<=/tmp/cc)\w+", "", program.stderr.decode(errors="replace"))
    return text[-DETAIL:]


class Judge:
    """Judges code in sandboxes.

    Args:
        limits: of one program.
        packages: what Python programs and their tests may import beside the standard library.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, packages: Packages = NONE):
        self.sandbox, self.compilers, self.limits, self.packages = sandbox, Compilers(), limits, packages

    def judge(self, problem: Problem, code: str) -> Verdict:
        """The verdict on a program that `program` of benchmarks/prompts.py built from a completion."""
        return self.judge_python(problem, code) if problem.language == "python" else self.judge_compiled(problem, code)

    def judge_python(self, problem: Problem, code: str) -> Verdict:
        call_reader, call_writer = os.pipe()
        reply_reader, reply_writer = os.pipe()

        def start(role: str, reading: int, writing: int, files: dict[str, str], own: list[str], stdout: int) -> Program:
            paths, folders = [f"/tmp/{name}" for name in files], self.packages.of(problem, role)
            return self.sandbox.start(
                [*self.sandbox.python, "/tmp/guest.pyc", role, str(reading), str(writing), *paths, *own, *folders],
                self.limits,
                folders=folders,
                files={"/tmp/guest.pyc": GUEST, **dict(zip(paths, map(encoded, files.values()), strict=True))},
                environment=ONE_THREAD if folders else None,
                stdout=stdout,
                descriptors=(reading, writing),
            )

        try:
            sources = {"prompt.py": problem.head, "tests.py": problem.tests}
            own = [" ".join(problem.defined or (problem.entry,))]
            judge = start("judge", reply_reader, call_writer, sources, own, subprocess.PIPE)
            candidate = start("candidate", call_reader, reply_writer, {"solution.py": code}, [], subprocess.DEVNULL)
        finally:
            for descriptor in (call_reader, call_writer, reply_reader, reply_writer):
                os.close(descriptor)

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

    def compiled(
        self, problem: Problem, step: str, sources: dict[str, str], parts: dict[str, bytes]
    ) -> bytes | Verdict:
        """The output of a compiler for source files and the parts built before, or why it failed.

        Args:
            step: `compile` or `link`.
        """
        chain, view = TOOLCHAINS[problem.language], self.compilers.of(problem.language)
        environment = {"PYTHON": " ".join(self.sandbox.python), "TYPE": compiled_programs.java_type(problem)}
        compiler = self.sandbox.run(
            ["/bin/sh", "-ec", f"{{ {getattr(chain, step)}; }} >&2; cat /tmp/out"],
            COMPILING,
            folders=view.folders,
            files={**view.files, **parts, **{f"/tmp/{name}": encoded(text) for name, text in sources.items()}},
            environment={**view.environment, **environment},
        )
        if compiler.killed_for:
            return Verdict("compile error", f"the compiler was killed: {compiler.killed_for}")
        if compiler.code is None:
            return Verdict("sandbox error", message(compiler))
        if compiler.code:
            missing = re.search(chain.missing, compiler.stderr.decode(errors="replace"))
            return Verdict("environment error" if missing else "compile error", message(compiler))
        return bytes(compiler.stdout)

    def judge_compiled(self, problem: Problem, code: str) -> Verdict:
        chain, view = TOOLCHAINS[problem.language], self.compilers.of(problem.language)
        half, key = secrets.token_bytes(16), secrets.token_bytes(16)
        part = self.compiled(problem, "compile", compiled_programs.candidate(problem, code), {})
        if isinstance(part, Verdict):
            return part
        tests = compiled_programs.tests(problem, key)
        linked = self.compiled(problem, "link", tests, {chain.linkable: part})
        if isinstance(linked, Verdict):
            return linked
        files = {**view.files, chain.linkable: part}
        if problem.language == "java":
            main = compiled_programs.java_main(tests["Tests.java"])
            run = [word.format(megabytes=self.limits.memory >> 21, main=main) for word in chain.run]
            program = self.sandbox.run(
                run,
                replace(self.limits, address_space=False),
                half + linked,
                folders=view.folders,
                files=files,
                environment=view.environment,
            )
        else:
            limits = replace(self.limits, address_space=problem.language != "go")
            program = self.sandbox.run(list(chain.run), limits, half, files={**files, "/run/program": linked})
        if verdict := exceeded([program]):
            return verdict
        if program.code is None:
            return Verdict("sandbox error", message(program))
        if bytes(a ^ b for a, b in zip(half, key, strict=True)) in program.stdout:
            return Verdict("passed", "")
        errors = program.stderr.decode(errors="replace")
        for outcome, pattern in (("memory", chain.memory), ("wrong", chain.wrong)):
            if re.search(pattern, errors, re.M):
                return Verdict(outcome, message(program))
        return Verdict("exception", f"exit code {program.code}: {message(program)}"[:DETAIL])


def encoded(text: str) -> bytes:
    return text.encode(errors="replace")


def judge_all(judge: Judge, programs: list[tuple[Problem, str]], label: str = "judge") -> list[Verdict]:
    """The verdicts in the order of the programs; as many run at a time as there are cores."""
    progress = Progress(label, "programs", len(programs))

    def one(item: tuple[Problem, str]) -> Verdict:
        verdict = judge.judge(*item)
        progress.add()
        return verdict

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        verdicts = list(pool.map(one, programs))
    progress.end()
    return verdicts
