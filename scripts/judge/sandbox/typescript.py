"""Judge programs in TypeScript: the types are checked, then program and tests run as JavaScript, apart.

    script, code = TypeScript(sandbox).translated(problem, code)   # or the verdict, if a type is wrong

A type that is wrong is a `compile error`, as in MultiPL-E, which runs `tsc --target esnext`. The program is checked
alone, so the compiler never sees it together with the tests.
"""

import functools
import shutil
from dataclasses import replace
from pathlib import Path

from scripts.common.errors import UserError
from scripts.judge.outcomes import Verdict
from scripts.judge.problem import Problem
from scripts.judge.sandbox.bubblewrap import Sandbox
from scripts.judge.sandbox.compiled_judge import COMPILING
from scripts.judge.sandbox.compiled_programs import CHANNELS, divided
from scripts.judge.sandbox.compilers import path_in_sandbox
from scripts.judge.sandbox.exit_causes import DETAIL, message
from scripts.judge.sandbox.program import Program

# MultiPL-E's tests declare it, and stand in one file with the program
DECLARED = "\ndeclare var require: any;\n"
LIBRARY = Path("lib/typescript.js")


def installed() -> Path:
    """The folder of the installed TypeScript.

    Raises:
        UserError: there is none, or one without the library of versions 4 to 6.
    """
    compiler = shutil.which("tsc")
    if not compiler:
        raise UserError("evaluation.code: typescript problems need tsc; install it (node-typescript)")
    folder = Path(compiler).resolve().parents[1]
    if not (folder / LIBRARY).is_file():
        raise UserError(f"evaluation.code: {compiler}: no {LIBRARY} in {folder}; install TypeScript 4 to 6")
    return folder


class TypeScript:
    """Translates programs; each problem's tests are translated once."""

    def __init__(self, sandbox: Sandbox):
        self.sandbox = sandbox
        self.tests = functools.lru_cache(maxsize=16)(self.translated_tests)

    def run(self, role: str, source: str) -> Program:
        folder, folders = path_in_sandbox(installed(), "typescript")
        return self.sandbox.run(
            ["/usr/bin/env", "node", "/opt/typescript.js", role, f"{folder}/{LIBRARY}", "/tmp/program.ts"],
            COMPILING,
            folders=folders,
            files={
                "/opt/typescript.js": (CHANNELS / "typescript.js").read_bytes(),
                "/tmp/program.ts": source.encode(errors="replace"),
            },
        )

    def translated_tests(self, problem: Problem) -> Problem | Verdict:
        """The problem in JavaScript, or why it cannot be judged."""
        body = problem.tests.lstrip().removeprefix("}") if problem.stops else problem.tests
        compiled = self.run("translate", f"{divided(problem)[0]}{body}")
        if compiled.code:
            return Verdict("sandbox error", f"TypeScript's compiler: {message(compiled)}"[:DETAIL])
        head, tests = f"function {problem.entry}() {{\n", bytes(compiled.stdout).decode()
        return replace(problem, language="javascript", head=head, tests=tests, stops=())

    def translated(self, problem: Problem, code: str) -> tuple[Problem, str] | Verdict:
        """(the problem, the program) in JavaScript, or the verdict if the program's types are wrong."""
        script = self.tests(problem)
        if isinstance(script, Verdict):
            return script
        compiled = self.run("check", f"{code}{DECLARED}")
        if compiled.killed_for:
            return Verdict("compile error", f"the compiler was killed: {compiled.killed_for}")
        if compiled.code is None:
            return Verdict("sandbox error", f"TypeScript's compiler: {message(compiled)}"[:DETAIL])
        if compiled.code:  # of wrong types, or its own end: it has translated the tests, so it works
            return Verdict("compile error", message(compiled))
        return script, bytes(compiled.stdout).decode()
