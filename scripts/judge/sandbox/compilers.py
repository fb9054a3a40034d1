"""The installed compilers: which folders, files and environment of this machine a sandbox needs for each.

    view = Compilers().of("go")   # folders, files and environment of a sandbox

What several compilations share (the channel between the two programs, C++'s headers, Go's packages) is built once, from
trusted sources and before any candidate, and is read-only in the sandbox.
"""

import functools
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from scripts.common.errors import UserError
from scripts.judge.sandbox.compiled_programs import CHANNELS, CPP_INCLUDES
from scripts.judge.sandbox.libraries import NONE, Libraries
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
        if missing := absent(language):
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
