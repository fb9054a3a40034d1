"""Judge C++ programs: the tests' program calls the candidate's, each in a sandbox of its own.

    verdict = CppJudge(sandbox, limits).judge(problem, code)

In the tests' program the function under test is a stub: it sends its arguments to the candidate's program, which calls
the real function and returns the result and what became of the arguments (`channel.hpp`). So the candidate's macros,
classes, overloads and other symbols are not there when the tests are built or run. The tests' exit code is the verdict;
the candidate can influence it only by what it answers.

A problem's tests are built once, so that every further candidate costs one compilation. The headers are compiled once,
from trusted sources and before any candidate, and are read-only in the sandbox.
"""

import functools
import re
import shutil
import subprocess
import tempfile
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from scripts.common.errors import UserError
from scripts.judge.problem import BEGINS, Problem, Verdict
from scripts.judge.sandbox.bubblewrap import Sandbox, replies_in
from scripts.judge.sandbox.program import DETAIL, OUTPUT, Limits, Program, exceeded, message, two_pipes, wait

PACKAGES = "g++ libboost-dev"  # of Debian and Ubuntu
ALL_OF_CPP = "bits/stdc++.h"
INCLUDES = ("stdlib.h", "algorithm", "math.h", "stdio.h", "vector", "string", "climits", "cstring", "iostream")
# The tests check indices: a result may be shorter than they expect.
TESTS_FLAGS = "-std=c++17 -O1 -w -D_GLIBCXX_ASSERTIONS"
# A candidate may have a main() of its own.
CANDIDATE_FLAGS = "-std=c++17 -O1 -w -Dmain=candidate_main"
# Scripts that run in a sandbox and write /tmp/out: the tests' program, what a candidate is linked to, the candidate's.
BUILD_TESTS = f"g++ {TESTS_FLAGS} -include /opt/headers/$HEADERS/tests.hpp -s -o out tests.cpp"
BUILD_SERVING = f"g++ {TESTS_FLAGS} -include /opt/headers/$HEADERS/tests.hpp -c -o out serve.cpp"
BUILD_CANDIDATE = (
    f"g++ {CANDIDATE_FLAGS} -include /opt/headers/$HEADERS/candidate.hpp -c candidate.cpp;"
    " g++ -s -Wl,-z,muldefs -o out candidate.o /opt/serving"
)
# What the compiler says of a library that is not installed (without parameters, an undefined function is C's), and of a
# type that the channel cannot pass; and what a program says that is out of memory.
MISSING = re.compile(r"fatal error: \S+: No such file|undefined reference to `\w+'")
UNSUPPORTED_TYPE = re.compile(r"stagecraft: values of this type cannot be passed")
OUT_OF_MEMORY = re.compile(r"std::bad_alloc")

COMPILING = Limits(seconds=120, memory=4 << 30, address_space=False, processes=256, scratch=512 << 20, output=OUTPUT)
# Exit codes of the channel: the candidate's program has ended; its answer is unreadable; a value cannot be passed.
GONE, UNREADABLE, UNSUPPORTED = 120, 121, 122
NOT_STARTED = (126, 127)  # the shell's
HEADERS_LOCK = Lock()
# Problems whose tests are kept; the samples of one problem are judged one after the other.
KEPT = 16


def divided(problem: Problem) -> tuple[str, str]:
    """(the part of the head before the problem's function, the signature of that function)."""
    *_, function_start = re.finditer(BEGINS["cpp"], problem.head, re.M)
    body_start = re.compile(r"\{[ \t]*$", re.M).search(problem.head, function_start.end())
    return problem.head[: function_start.start()], problem.head[function_start.start() : body_start.start()].strip()


def parameters(signature: str) -> list[str]:
    """The names of a function's parameters."""
    parameter_list, nested = signature[signature.index("(") + 1 : signature.rindex(")")], 1
    while nested:  # type arguments, the innermost first
        parameter_list, nested = re.subn(r"<[^<>]*>", " ", parameter_list)
    declarations = [part.split("=")[0] for part in parameter_list.split(",") if part.strip()]
    return [part.split()[-1].rstrip("[]").lstrip("*&") for part in declarations]


def renamed(signature: str, entry: str) -> str:
    """The signature with another name for the function, without what would keep it in one file."""
    external = re.sub(r"^(?:(?:static|inline|constexpr)\s+)+", "", signature)
    return re.sub(rf"\b{entry}(?=\s*\()", "stagecraft_entry", external, count=1)


def tests_sources(problem: Problem) -> dict[str, str]:
    """The source files of the tests by name."""
    before, signature = divided(problem)
    body = problem.tests.lstrip().removeprefix("}") if problem.stops else problem.tests  # MultiPL-E closes the function
    declared, arguments = renamed(signature, problem.entry), ", ".join(parameters(signature))
    stub = f"{signature} {{ return stagecraft::Remote<decltype(&stagecraft_entry)>::call({arguments}); }}\n"
    serving = f"{before}{declared};\nint main() {{ stagecraft::serve(&stagecraft_entry); }}\n"
    return {"tests.cpp": f"{before}{declared};\n{stub}{body}", "serve.cpp": serving}


def candidate_sources(problem: Problem, code: str) -> dict[str, str]:
    """The candidate's source file by its name."""
    _, signature = divided(problem)
    call = f"{problem.entry}({', '.join(parameters(signature))})"
    return {"candidate.cpp": f"{code}\n{renamed(signature, problem.entry)} {{ return {call}; }}\n"}


def compile_header(header: Path, text: str, flags: str) -> None:
    """Write and precompile a header."""
    header.write_text(text)
    command = [shutil.which("g++"), *flags.split(), "-x", "c++-header", str(header), "-o", f"{header}.gch"]
    environment = {"PATH": "/usr/bin:/bin", "HOME": tempfile.gettempdir()}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/")
    if done.returncode:
        raise UserError(f"g++ {header.name}: {' '.join(done.stderr.split())[-300:]}")


@functools.cache
def headers_folder() -> tempfile.TemporaryDirectory:
    """The folder of the compiled headers, for as long as this process lives."""
    folder = tempfile.TemporaryDirectory(prefix="stagecraft-")
    Path(folder.name).chmod(0o755)  # readable for the sandbox's user
    return folder


@functools.cache
def compiled_headers(name: str) -> str:
    """Compile headers from this project's own text, once in a process, and return their folder in /opt/headers.

    They are what the reference harness includes, or `all` of the standard library for sources that include
    `bits/stdc++.h`, as MultiPL-E's do. Call it with `HEADERS_LOCK` held.
    """
    folder = Path(headers_folder().name) / name
    folder.mkdir(exist_ok=True)
    includes = [*INCLUDES, ALL_OF_CPP] if name == "all" else INCLUDES
    standard = "".join(f"#include <{include}>\n" for include in includes)
    channel = Path(__file__).with_name("channel.hpp").read_text()
    compile_header(folder / "tests.hpp", standard + channel, TESTS_FLAGS)
    compile_header(folder / "candidate.hpp", standard, CANDIDATE_FLAGS)
    return name


@dataclass(frozen=True)
class Tests:
    """A problem's tests, built: the program, and what the candidate is linked to."""

    program: bytes
    serving: bytes


class CppJudge:
    """Judges programs in C++. `limits`: of one program."""

    def __init__(self, sandbox: Sandbox, limits: Limits):
        self.sandbox, self.limits = sandbox, limits
        self.lock, self.kept = Lock(), OrderedDict()

    def check(self) -> None:
        """Check that the compiler is there. Raises UserError: it is not installed."""
        if not shutil.which("g++"):
            raise UserError(f"evaluation.code: cpp problems need g++; install it ({PACKAGES})")

    def judge(self, problem: Problem, code: str) -> Verdict:
        """The verdict on a program. Raises UserError: the compiler is not installed."""
        tests = self.tests(problem)
        if isinstance(tests, Verdict):
            return tests
        program = self.built(BUILD_CANDIDATE, candidate_sources(problem, code), {"/opt/serving": tests.serving})
        if isinstance(program, Verdict):
            return program
        with two_pipes() as pipes:
            judge = self.started(tests.program, pipes.reply_reader, pipes.call_writer)
            called = self.started(program, pipes.call_reader, pipes.reply_writer)
        return self.verdict(judge, called)

    def judge_replies(self, problem: Problem, replies: bytes) -> Verdict:
        """The verdict on a program of which only its replies are known."""
        tests = self.tests(problem)
        if isinstance(tests, Verdict):
            return tests
        with replies_in(replies) as (reply_reader, call_writer):
            judge = self.started(tests.program, reply_reader, call_writer)
        return self.verdict(judge, None)

    def tests(self, problem: Problem) -> Tests | Verdict:
        """A problem's tests, or why they cannot be built; threads that want the same ones wait for the first."""
        with self.lock:
            lock, _ = kept = self.kept.setdefault(problem, [Lock(), None])
            self.kept.move_to_end(problem)
            if len(self.kept) > KEPT:
                self.kept.popitem(last=False)
        with lock:
            kept[1] = kept[1] or self.built_tests(problem)
            return kept[1]

    def built_tests(self, problem: Problem) -> Tests | Verdict:
        sources, parts = tests_sources(problem), []
        for script in (BUILD_TESTS, BUILD_SERVING):
            part = self.built(script, sources, {})
            if isinstance(part, Verdict):
                if UNSUPPORTED_TYPE.search(part.detail):
                    return Verdict("unjudged", f"the function's signature: {part.detail}"[:DETAIL])
                fault = "test error"
                if part.outcome == "sandbox error":
                    fault = part.outcome
                return Verdict(fault, f"the problem's own tests: {part.detail}"[:DETAIL])
            parts.append(part)
        return Tests(*parts)

    def built(self, script: str, sources: dict[str, str], parts: dict[str, bytes]) -> bytes | Verdict:
        """The output of the compiler for source files and the parts built before, or why it failed."""
        self.check()
        everything = any(ALL_OF_CPP in text for text in sources.values())
        with HEADERS_LOCK:
            headers = compiled_headers("all" if everything else "common")
        texts = {f"/tmp/{name}": text.encode(errors="replace") for name, text in sources.items()}
        compiler = self.sandbox.run(
            ["/bin/sh", "-ec", f"{{ {script}; }} >&2; cat /tmp/out"],
            COMPILING,
            folders={"/opt/headers": headers_folder().name},
            files={**parts, **texts},
            environment={"HEADERS": headers},
        )
        if compiler.killed_for:
            return Verdict("compile error", f"the compiler was killed: {compiler.killed_for}")
        if compiler.code is None:
            return Verdict("sandbox error", message(compiler))
        if compiler.code == 0:
            return bytes(compiler.stdout)
        errors, detail = compiler.stderr.decode(errors="replace"), message(compiler)
        unsupported = UNSUPPORTED_TYPE.search(errors)
        if unsupported:
            detail = f"{unsupported[0]}\n{detail}"
        return Verdict("environment error" if MISSING.search(errors) else "compile error", detail)

    def started(self, program: bytes, stdin: int, stdout: int) -> Program:
        """Start one of the two programs; it cannot read its own file."""
        limits = replace(self.limits, address_space=True)
        return self.sandbox.start(["/run/program"], limits, files={"/run/program": program}, stdin=stdin, stdout=stdout)

    def verdict(self, judge: Program, called: Program | None) -> Verdict:
        """The verdict of the tests' program. `called`: the candidate's; None if there is none."""
        programs = [judge] if called is None else [judge, called]
        wait(programs, lambda: not judge.open and not (judge.code == GONE and programs[-1].open))
        if judge.code == 0:
            return Verdict("passed", "")
        verdict = exceeded(programs)
        if verdict:
            return verdict
        if judge.code is None or judge.code in NOT_STARTED:
            return Verdict("sandbox error", message(judge))
        if judge.code == UNSUPPORTED or (called and called.code == UNSUPPORTED):
            return Verdict("unjudged", message(judge) or message(called))
        if judge.code not in (GONE, UNREADABLE):
            return Verdict("wrong", message(judge))
        unreadable = ""
        if judge.code == UNREADABLE:
            unreadable = "no readable answer: "
        if called is None:
            return Verdict("exception", unreadable)
        if OUT_OF_MEMORY.search(called.stderr.decode(errors="replace")):
            return Verdict("memory", message(called))
        exit_note = ""
        if judge.code == GONE:
            exit_note = f"the program ended, exit code {called.code}: "
        return Verdict("exception", f"{exit_note}{unreadable}{message(called)}"[:DETAIL])
