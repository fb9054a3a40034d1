"""The compilers: how a program of each language is built and run, and what of this machine a sandbox must show for it.

    built = Compilers().of("go")   # folders, files and environment of a sandbox

Rust and Go code that is not memory-safe is refused, as are the attributes that replace symbols: what shares a process
with the tests could else read or change them. What compilers may reuse (Go's packages, the Java gate) is built once,
from trusted sources and before any candidate, and shown read-only.
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
    """One language's way from source to verdict; scripts run in a sandbox and leave what they make in /tmp/out.

    Attributes:
        programs: what must be installed, and what installs it on Debian and Ubuntu.
        compile: makes the candidate's part of its sources in /tmp.
        linkable: where that part lies when the tests are linked, and when they run.
        link: makes the program of the tests' sources in /tmp and that part.
        run: the program, and how it is started.
        missing: what a compiler says where a library is not installed.
        wrong, memory: what a program says at its end.
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
        " gcc -O1 -c gate.c; g++ -s -Wl,-rpath,/opt -o out tests.o gate.o /opt/candidate.so",
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
        " $GO tool compile -p main -importcfg importcfg -o main.a tests.go gate.go;"
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
        link=f"mkdir classes; {JAVAC} -cp /opt/gate.jar -d classes Tests.java GateKey.java;"
        " cd classes; $PYTHON -m zipfile -c /tmp/out *",
        run=(
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+DisableAttachMechanism"),
            *("-Xmx{megabytes}m", "-Xss64m", "-ea", "--limit-modules", "java.base", "-cp", "/opt/gate.jar", "Gate"),
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
class Shown:
    """What a sandbox shows of an installed compiler: arguments of `Sandbox.start`."""

    folders: dict[str, str]
    files: dict[str, bytes]
    environment: dict[str, str]


def output(*command: str, **environment: str) -> str:
    """What a command of an installed compiler prints.

    Raises:
        UserError: it fails.
    """
    base = {"PATH": "/usr/bin:/bin", "HOME": tempfile.gettempdir()}
    command = [shutil.which(command[0]) or command[0], *command[1:]]
    done = subprocess.run(command, capture_output=True, text=True, env={**base, **environment}, cwd="/")
    if done.returncode:
        raise UserError(f"{' '.join(command[:3])}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout.strip()


def placed(folder: Path, name: str) -> tuple[str, dict[str, str]]:
    """(where a sandbox shows a folder, what `folders` it takes): as it is below /usr, else as /opt/{name}."""
    if folder.is_relative_to("/usr"):
        return str(folder), {}
    return f"/opt/{name}", {f"/opt/{name}": str(folder)}


class Compilers:
    """The installed compilers; what has to be built for one is built when it is first asked for."""

    def __init__(self):
        self.folder, self.lock = tempfile.TemporaryDirectory(prefix="stagecraft-"), Lock()
        Path(self.folder.name).chmod(0o755)  # a sandbox's user must get in

    def of(self, language: str) -> Shown:
        """What a sandbox must show.

        Raises:
            UserError: the compiler is not installed, or cannot build what its programs need.
        """
        with self.lock:
            return self.found(language)

    @functools.cache  # noqa: B019, one instance per run
    def found(self, language: str) -> Shown:
        if missing := absent(language):
            packages = TOOLCHAINS[language].packages
            raise UserError(f"evaluation.code: {language} problems need {missing}; install it ({packages})")
        return getattr(self, language)()

    def cpp(self) -> Shown:
        return Shown({}, {}, {})

    def rust(self) -> Shown:
        shown, folders = placed(Path(output("rustc", "--print", "sysroot", HOME=str(Path.home()))), "rust")
        return Shown(folders, {}, {"RUST": shown})

    def go(self) -> Shown:
        root, cache = Path(output("go", "env", "GOROOT")).resolve(), Path(self.folder.name) / "go"
        wanted = ["std", "github.com/stretchr/testify/assert"]
        form = "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}"
        settings = {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOCACHE": str(cache), "GOTOOLCHAIN": "local"}
        listed = output("go", "list", "-e", "-export", "-deps", "-f", form, *wanted, **settings)
        shown, folders = placed(root, "goroot")
        listed = listed.replace(f"={root}/", f"={shown}/").replace(f"={cache}/", "=/opt/go-cache/")
        environment = {"GO": f"{shown}/bin/go", "GOROOT": shown, "GO111MODULE": "off", "GOTOOLCHAIN": "local"}
        return Shown({**folders, "/opt/go-cache": str(cache)}, {"/opt/importcfg": f"{listed}\n".encode()}, environment)

    def java(self) -> Shown:
        home, made = Path(shutil.which("javac")).resolve().parents[1], Path(self.folder.name) / "java"
        output("javac", "-d", str(made), str(LAUNCHERS / "Gate.java"))
        jar = shutil.make_archive(str(made), "zip", made)
        shown, folders = placed(home, "jdk")
        folders |= {str(path): str(path) for path in Path("/etc").glob("java*")}  # Debian's JDK links there
        return Shown(folders, {"/opt/gate.jar": Path(jar).read_bytes()}, {"PATH": f"{shown}/bin:/usr/bin:/bin"})
