"""Judge programs in C++, Rust, Go and Java: the tests' program calls the candidate's, each in a sandbox of its own.

    verdict = CompiledJudge(sandbox, limits).judge(problem, code)

The tests' exit code is the verdict; the candidate can influence it only by what it answers (`channels/`). A problem's
tests are built once, so that every further candidate costs one compilation.

What several compilations share (the channel between the two programs, C++'s headers, Go's packages) is built once, from
trusted sources and before any candidate, and is read-only in the sandbox.
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
from scripts.judge.problem import Problem, Verdict
from scripts.judge.sandbox import compiled_programs
from scripts.judge.sandbox.bubblewrap import Sandbox, replies_in
from scripts.judge.sandbox.compiled_programs import CHANNELS, CPP_INCLUDES
from scripts.judge.sandbox.libraries import NONE, Libraries
from scripts.judge.sandbox.program import DETAIL, OUTPUT, Limits, Program, exceeded, message, two_pipes, wait
from scripts.judge.sandbox.toolchains import CPP_CANDIDATE, CPP_TESTS, JAVAC_OPTIONS, TOOLCHAINS, absent

ALL_OF_CPP = "bits/stdc++.h"


@dataclass(frozen=True)
class CompilerView:
    """What a sandbox needs of an installed compiler: arguments of `Sandbox.start`."""

    folders: dict[str, str]
    files: dict[str, bytes]
    environment: dict[str, str]
    packages: frozenset[str] = frozenset()  # what Go programs can import


def output(*command: str, **environment: str) -> str:
    """The output of a command of an installed compiler.

    Raises:
        UserError: the command fails.
    """
    base = {"PATH": "/usr/bin:/bin", "HOME": tempfile.gettempdir()}
    command = [shutil.which(command[0]) or command[0], *command[1:]]
    done = subprocess.run(command, capture_output=True, text=True, env={**base, **environment}, cwd="/")
    if done.returncode:
        raise UserError(f"{' '.join(command[:3])}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout.strip()


def path_in_sandbox(folder: Path, name: str) -> tuple[str, dict[str, str]]:
    """(path of a folder in the sandbox, the `folders` this needs): unchanged below /usr, else /opt/{name}."""
    if folder.is_relative_to("/usr"):
        return str(folder), {}
    return f"/opt/{name}", {f"/opt/{name}": str(folder)}


class Compilers:
    """The installed compilers; files that a compiler needs are built on its first use."""

    def __init__(self, libraries: Libraries = NONE):
        self.libraries = libraries
        self.folder, self.lock = tempfile.TemporaryDirectory(prefix="stagecraft-"), Lock()
        Path(self.folder.name).chmod(0o755)  # readable for the sandbox's user

    def of(self, language: str) -> CompilerView:
        """What a sandbox needs.

        Raises:
            UserError: the compiler is not installed, or fails to build what its programs need.
        """
        with self.lock:
            return self.prepared(language)

    @functools.cache  # noqa: B019, one instance per run
    def prepared(self, language: str) -> CompilerView:
        missing = absent(language)
        if missing:
            packages = TOOLCHAINS[language].packages
            raise UserError(f"evaluation.code: {language} problems need {missing}; install it ({packages})")
        return getattr(self, language)()

    def cpp(self) -> CompilerView:
        folder = Path(self.folder.name) / "cpp"
        folder.mkdir()
        return CompilerView({"/opt/headers": str(folder)}, {}, {})

    def headers(self, sources: dict[str, str]) -> str:
        """Which headers of C++ are compiled before a program's sources: its name as a folder of /opt/headers.

        Compiled once, from this project's own text: what the reference harness includes, or all of the standard
        library for sources that include `bits/stdc++.h`, as MultiPL-E's do.
        """
        whole = any(ALL_OF_CPP in text for text in sources.values())
        with self.lock:
            return self.compiled_headers("all" if whole else "common")

    @functools.cache  # noqa: B019, one instance per run
    def compiled_headers(self, name: str) -> str:
        folder = Path(self.folder.name) / "cpp" / name
        folder.mkdir()
        includes = [*CPP_INCLUDES, *([ALL_OF_CPP] if name == "all" else [])]
        standard = "".join(f"#include <{include}>\n" for include in includes)
        channel = (CHANNELS / "channel.hpp").read_text()
        for header, text, flags in (
            ("tests.hpp", standard + channel, CPP_TESTS),
            ("candidate.hpp", standard, CPP_CANDIDATE),
        ):
            (folder / header).write_text(text)
            output("g++", *flags.split(), "-x", "c++-header", str(folder / header), "-o", f"{folder / header}.gch")
        return name

    def rust(self) -> CompilerView:
        root = Path(output("rustc", "--print", "sysroot", HOME=str(Path.home())))
        library, rustc = Path(self.folder.name) / "libstagecraft.rlib", str(root / "bin/rustc")
        options = ("--edition", "2021", "-O", "--crate-type", "rlib", "--crate-name", "stagecraft", "-o", str(library))
        output(rustc, *options, str(CHANNELS / "channel.rs"))
        path, folders = path_in_sandbox(root, "rust")
        channel = f"/opt/{library.name}"
        return CompilerView(folders, {channel: library.read_bytes()}, {"RUST": path, "CHANNEL": channel})

    def go(self) -> CompilerView:
        root, folder = Path(output("go", "env", "GOROOT")).resolve(), Path(self.folder.name)
        cache, channel, known = folder / "go", folder / "stagecraft.a", folder / "importcfg"
        needed, paths = ["std", "github.com/stretchr/testify/assert", *self.libraries.go_packages], "/usr/share/gocode"
        if self.libraries.go_vendor:  # a GOPATH keeps its packages in `src`
            (folder / "gopath").mkdir()
            (folder / "gopath/src").symlink_to(self.libraries.go_vendor)
            paths = f"{folder / 'gopath'}:{paths}"
        form = "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}"
        settings = {"GO111MODULE": "off", "GOPATH": paths, "GOCACHE": str(cache), "GOTOOLCHAIN": "local"}
        listed = output("go", "list", "-e", "-export", "-deps", "-f", form, *needed, **settings)
        known.write_text(f"{listed}\n")
        compile = ("go", "tool", "compile", "-p", "stagecraft", "-importcfg", str(known), "-o", str(channel))
        output(*compile, str(CHANNELS / "channel.go"), **settings)
        path, folders = path_in_sandbox(root, "goroot")
        listed = listed.replace(f"={root}/", f"={path}/").replace(f"={cache}/", "=/opt/go-cache/")
        environment = {"GO": f"{path}/bin/go", "GOROOT": path, "GO111MODULE": "off", "GOTOOLCHAIN": "local"}
        files = {
            "/opt/importcfg": f"{listed}\npackagefile stagecraft=/opt/stagecraft.a\n".encode(),
            "/opt/stagecraft.a": channel.read_bytes(),
        }
        packages = frozenset(re.findall(r"^packagefile ([^=]+)=", listed, re.M))
        return CompilerView({**folders, "/opt/go-cache": str(cache)}, files, environment, packages)

    def java(self) -> CompilerView:
        home, classes = Path(shutil.which("javac")).resolve().parents[1], Path(self.folder.name) / "java"
        compiler = Path(self.folder.name) / "javac"
        compiler.mkdir()
        archive = f"-J-XX:ArchiveClassesAtExit={compiler / 'classes.jsa'}"
        output("javac", archive, *JAVAC_OPTIONS.split(), "-d", str(classes), str(CHANNELS / "Channel.java"))
        jar = shutil.make_archive(str(classes), "zip", classes)
        path, folders = path_in_sandbox(home, "jdk")
        folders = {**folders, "/opt/javac": str(compiler)}
        folders |= {str(link): str(link) for link in Path("/etc").glob("java*")}  # Debian's JDK links there
        jars = {f"/opt/library{number}.jar": str(file) for number, file in enumerate(self.libraries.jars)}
        environment = {"PATH": f"{path}/bin:/usr/bin:/bin", "JARS": "".join(f":{jar}" for jar in jars)}
        return CompilerView(folders | jars, {"/opt/channel.jar": Path(jar).read_bytes()}, environment)


COMPILING = Limits(seconds=120, memory=4 << 30, address_space=False, processes=256, scratch=512 << 20, output=OUTPUT)

# Exit codes of the channel (channels/): the candidate's program has ended; its answer is unreadable; a value is of a
# type that cannot be passed; the candidate threw an exception (Java). Then the shell's, and the Java virtual machine's.
GONE, UNREADABLE, UNSUPPORTED, RAISED = 120, 121, 122, 123
NOT_STARTED = {"java": (98, 126, 127)}
# What the Java virtual machine writes where it ends by itself with exit code 1, as tests may end too.
JAVA_BROKEN = re.compile(r'^(Exception in thread "main"|Error: |Error occurred)', re.M)
# Where a virtual machine finds the program; the others run it themselves, unreadable at /run/program.
VIRTUAL_MACHINES = {"java": "/opt/program.jar"}
# Problems whose tests are kept; the samples of one problem are judged one after the other.
KEPT = 16


@dataclass(frozen=True)
class Tests:
    """A problem's tests, built: the program, and what the candidate is linked to."""

    program: bytes
    serving: bytes


class CompiledJudge:
    """Judges code in compiled languages.

    Args:
        limits: of one program.
        libraries: what programs and tests may use beside the languages' own.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, libraries: Libraries = NONE):
        self.sandbox, self.limits, self.libraries = sandbox, limits, libraries
        self.compilers = Compilers(libraries)
        self.lock, self.kept = Lock(), OrderedDict()

    def judge(self, problem: Problem, code: str) -> Verdict:
        """The verdict on a program.

        Raises:
            UserError: the compiler is not installed.
        """
        tests = self.tests(problem)
        if isinstance(tests, Verdict):
            return tests
        chain, sources = TOOLCHAINS[problem.language], compiled_programs.candidate(problem, code, self.libraries)
        program = self.built(
            problem, chain.candidate, sources, {"/opt/serving": tests.serving} if chain.serving else {}
        )
        return program if isinstance(program, Verdict) else self.called(problem, tests.program, program)

    def missing(self, problem: Problem) -> set[str]:
        """The libraries that a problem uses and nobody has.

        Raises:
            UserError: the compiler is not installed.
        """
        return self.libraries.missing(problem, self.compilers.of(problem.language).packages)

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
        chain, sources = TOOLCHAINS[problem.language], compiled_programs.tests(problem, self.libraries)
        parts = []
        for script in (chain.tests, chain.serving):
            part = self.built(problem, script, sources, {}) if script else b""
            if isinstance(part, Verdict):
                if re.search(chain.unsupported, part.detail):
                    return Verdict("unjudged", f"the function's signature: {part.detail}"[:DETAIL])
                fault = part.outcome if part.outcome == "sandbox error" else "test error"
                return Verdict(fault, f"the problem's own tests: {part.detail}"[:DETAIL])
            parts.append(part)
        return Tests(*parts)

    def built(self, problem: Problem, script: str, sources: dict[str, str], parts: dict[str, bytes]) -> bytes | Verdict:
        """The output of a compiler for source files and the parts built before, or why it failed."""
        chain, view = TOOLCHAINS[problem.language], self.compilers.of(problem.language)
        environment = {"PYTHON": " ".join(self.sandbox.python), "TYPE": compiled_programs.class_of(problem)}
        if problem.language == "cpp":
            environment["HEADERS"] = self.compilers.headers(sources)
        texts = {f"/tmp/{name}": text.encode(errors="replace") for name, text in sources.items()}
        compiler = self.sandbox.run(
            ["/bin/sh", "-ec", f"{{ {script}; }} >&2; cat /tmp/out"],
            COMPILING,
            folders=view.folders,
            files={**view.files, **parts, **texts},
            environment={**view.environment, **environment},
        )
        if compiler.killed_for:
            return Verdict("compile error", f"the compiler was killed: {compiler.killed_for}")
        if compiler.code is None:
            return Verdict("sandbox error", message(compiler))
        if compiler.code:
            errors = compiler.stderr.decode(errors="replace")
            missing = re.search(chain.missing, errors)
            unsupported = re.search(chain.unsupported, errors)
            detail = f"{unsupported[0]}\n{message(compiler)}" if unsupported else message(compiler)
            return Verdict("environment error" if missing else "compile error", detail)
        return bytes(compiler.stdout)

    def called(self, problem: Problem, tests: bytes, candidate: bytes) -> Verdict:
        """The verdict of the tests' program, which calls the candidate's."""
        chain = TOOLCHAINS[problem.language]
        with two_pipes() as pipes:
            judge = self.started(problem, chain.run_tests, tests, pipes.reply_reader, pipes.call_writer)
            called = self.started(problem, chain.run_candidate, candidate, pipes.call_reader, pipes.reply_writer)
        return self.verdict(problem, judge, called)

    def judge_replies(self, problem: Problem, replies: bytes) -> Verdict:
        """The verdict on a program of which only its replies are known."""
        tests = self.tests(problem)
        if isinstance(tests, Verdict):
            return tests
        with replies_in(replies) as (reply_reader, call_writer):
            command = TOOLCHAINS[problem.language].run_tests
            judge = self.started(problem, command, tests.program, reply_reader, call_writer)
        return self.verdict(problem, judge, None)

    def verdict(self, problem: Problem, judge: Program, called: Program | None) -> Verdict:
        """The verdict of the tests' program.

        Args:
            called: the candidate's; None if there is none.
        """
        programs = [judge] if called is None else [judge, called]
        wait(programs, lambda: not judge.open and not (judge.code == GONE and programs[-1].open))
        if judge.code == 0:
            return Verdict("passed", "")
        verdict = exceeded(programs)
        if verdict:
            return verdict
        broken = problem.language == "java" and judge.code == 1 and JAVA_BROKEN.search(message(judge))
        if judge.code is None or judge.code in NOT_STARTED.get(problem.language, (126, 127)) or broken:
            return Verdict("sandbox error", message(judge))
        if judge.code == UNSUPPORTED or (called and called.code == UNSUPPORTED):
            return Verdict("unjudged", message(judge) or message(called))
        if judge.code in (GONE, UNREADABLE, RAISED):
            unreadable = "no readable answer: " if judge.code == UNREADABLE else ""
            if called is None:
                return Verdict("exception", unreadable)
            if re.search(TOOLCHAINS[problem.language].memory, called.stderr.decode(errors="replace")):
                return Verdict("memory", message(called))
            exit_note = f"the program ended, exit code {called.code}: " if judge.code == GONE else ""
            return Verdict("exception", f"{exit_note}{unreadable}{message(called)}"[:DETAIL])
        return Verdict("wrong", message(judge))

    def started(self, problem: Problem, command: tuple[str, ...], program: bytes, stdin: int, stdout: int) -> Program:
        language, view = problem.language, self.compilers.of(problem.language)
        values = {"megabytes": self.limits.memory >> 21, "entry": problem.entry}
        if language == "java":
            values |= {"jars": view.environment["JARS"]}
            values |= {"main": compiled_programs.main_class(problem), "type": compiled_programs.class_of(problem)}
        place = VIRTUAL_MACHINES.get(language)
        return self.sandbox.start(
            [word.format(**values) for word in command],
            replace(self.limits, address_space=language in ("cpp", "rust")),
            folders=view.folders if place else {},
            files={**view.files, place: program} if place else {"/run/program": program},
            environment=view.environment if place else {},
            stdin=stdin,
            stdout=stdout,
        )
