"""The compilers: how a program of each language is built and run, and which files of this machine its sandbox needs.

    view = Compilers().of("go")   # folders, files and environment of a sandbox

Rust and Go code that is not memory-safe is refused, and so are attributes that replace symbols: code in the same
process as the tests could otherwise read or change them. What several compilations share (Go's packages, the Java
launcher) is built once, from trusted sources and before any candidate, and is read-only in the sandbox.
"""

import functools
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from scripts.common.cli import UserError
from scripts.evaluation.sandbox.compiled_programs import LAUNCHERS

JAVATUPLES = "Unit|Pair|Triplet|Quartet|Quintet|Sextet|Septet|Octet|Ennead|Decade"

JAVAC = "javac -J-Xmx512m -J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1 -nowarn -proc:none --limit-modules java.base"
RUSTC = "$RUST/bin/rustc --edition 2021 -A warnings -C debuginfo=0"


@dataclass(frozen=True)
class Toolchain:
    """How programs of one language are built, run and judged; the shell scripts run in a sandbox and write /tmp/out.

    Attributes:
        programs: that must be installed.
        packages: that install them on Debian and Ubuntu.
        compile: script that compiles the candidate's sources in /tmp.
        linkable: path of the compiled candidate when the tests are linked, and when they run.
        link: script that links the program from the tests' sources in /tmp and the compiled candidate.
        run: the command that starts the program.
        missing: pattern of a compiler's message if a library is not installed.
        wrong, memory: patterns of a program's last message after a failed assertion, or out of memory.
    """

    programs: tuple[str, ...]
    packages: str
    compile: str
    linkable: str
    link: str
    run: tuple[str, ...]
    missing: str
    wrong: str
    memory: str


TOOLCHAINS = {
    "cpp": Toolchain(
        programs=("g++", "objcopy"),
        packages="g++ libboost-dev",
        compile="g++ -std=c++17 -O1 -w -fPIC -shared -Wl,-z,defs -Wl,--version-script=/tmp/exports.map"
        " -o /tmp/out /tmp/candidate.cpp",
        linkable="/opt/candidate.so",
        link="g++ -std=c++17 -O1 -w -c -o tests.o tests.cpp; objcopy --redefine-sym main=stagecraft_tests tests.o;"
        " gcc -O1 -c launcher.c; g++ -s -Wl,-rpath,/opt -o out tests.o launcher.o /opt/candidate.so",
        run=("/run/program",),
        missing=r"fatal error: \S+: No such file|undefined reference to `\w+'",  # the latter without C++'s parameters
        wrong=r"Assertion .* failed",
        memory=r"std::bad_alloc",
    ),
    "rust": Toolchain(
        programs=("rustc", "cc"),
        packages="rustc",
        compile=f"{RUSTC} --crate-type rlib --crate-name candidate -F unsafe_code -o /tmp/out /tmp/candidate.rs",
        linkable="/opt/libcandidate.rlib",
        link=f"{RUSTC} -C strip=symbols --crate-name program --extern candidate=/opt/libcandidate.rlib -o out tests.rs",
        run=("/run/program",),
        missing=r"unlinked crate|missing crate|can't find crate|`(?:Rng|Regex|md5|rand|regex)`",
        wrong=r"assertion .*failed",
        memory=r"memory allocation of \d+ bytes failed",
    ),
    "go": Toolchain(
        programs=("go",),
        packages="golang-go golang-github-stretchr-testify-dev",
        compile='for name in $($GO list -f "{{join .Imports \\" \\"}}" candidate.go); do case $name in'
        ' unsafe|syscall|C|plugin) echo "import of $name is refused"; exit 1;; esac; done;'
        " $GO tool compile -p candidate -importcfg /opt/importcfg -o /tmp/out candidate.go entry.go",
        linkable="/opt/candidate.a",
        link="(cat /opt/importcfg; echo packagefile candidate=/opt/candidate.a) > importcfg;"
        " $GO tool compile -p main -importcfg importcfg -o main.a tests.go launcher.go;"
        " $GO tool link -s -w -importcfg importcfg -o out main.a",
        run=("/run/program",),
        missing=r"could not import|can't find import",
        wrong=r"--- FAIL",
        memory=r"out of memory|cannot allocate memory",
    ),
    "java": Toolchain(
        programs=("javac", "java"),
        packages="default-jdk-headless",
        compile=f"mkdir classes; {JAVAC} -d classes $TYPE.java; cd classes; $PYTHON -m zipfile -c /tmp/out *",
        linkable="/opt/candidate.jar",
        link=f"mkdir classes; {JAVAC} -cp /opt/launcher.jar -d classes Tests.java LauncherKey.java;"
        " cd classes; $PYTHON -m zipfile -c /tmp/out *",
        run=(
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+DisableAttachMechanism"),
            *(
                "-Xmx{megabytes}m",
                "-Xss64m",
                "-ea",
                "--limit-modules",
                "java.base",
                "-cp",
                "/opt/launcher.jar",
                "Launcher",
            ),
            *("/opt/candidate.jar", "{main}"),
        ),
        missing=rf"package [\w.]+ does not exist|symbol:\s+class (?:{JAVATUPLES})\b",
        wrong=r'^Exception in thread "main" java\.lang\.AssertionError',
        memory=r"java\.lang\.OutOfMemoryError",
    ),
}


def absent(language: str) -> str:
    """The programs of a language that are not installed, as one text."""
    return ", ".join(name for name in TOOLCHAINS[language].programs if not shutil.which(name))


@dataclass(frozen=True)
class CompilerView:
    """What a sandbox needs of an installed compiler: arguments of `Sandbox.start`."""

    folders: dict[str, str]
    files: dict[str, bytes]
    environment: dict[str, str]


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

    def __init__(self):
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
        return CompilerView({}, {}, {})

    def rust(self) -> CompilerView:
        path, folders = path_in_sandbox(Path(output("rustc", "--print", "sysroot", HOME=str(Path.home()))), "rust")
        return CompilerView(folders, {}, {"RUST": path})

    def go(self) -> CompilerView:
        root, cache = Path(output("go", "env", "GOROOT")).resolve(), Path(self.folder.name) / "go"
        packages = ["std", "github.com/stretchr/testify/assert"]
        form = "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}"
        settings = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(cache), "GOTOOLCHAIN": "local"}
        listed = output("go", "list", "-e", "-export", "-deps", "-f", form, *packages, **settings)
        path, folders = path_in_sandbox(root, "goroot")
        listed = listed.replace(f"={root}/", f"={path}/").replace(f"={cache}/", "=/opt/go-cache/")
        environment = {"GO": f"{path}/bin/go", "GOROOT": path, "GO111MODULE": "off", "GOTOOLCHAIN": "local"}
        return CompilerView(
            {**folders, "/opt/go-cache": str(cache)}, {"/opt/importcfg": f"{listed}\n".encode()}, environment
        )

    def java(self) -> CompilerView:
        home, classes = Path(shutil.which("javac")).resolve().parents[1], Path(self.folder.name) / "java"
        output("javac", "-d", str(classes), str(LAUNCHERS / "Launcher.java"))
        jar = shutil.make_archive(str(classes), "zip", classes)
        path, folders = path_in_sandbox(home, "jdk")
        folders |= {str(link): str(link) for link in Path("/etc").glob("java*")}  # Debian's JDK links there
        return CompilerView(
            folders, {"/opt/launcher.jar": Path(jar).read_bytes()}, {"PATH": f"{path}/bin:/usr/bin:/bin"}
        )
