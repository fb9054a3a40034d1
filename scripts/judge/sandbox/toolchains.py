"""How programs of each compiled language are built and run, and which messages tell what went wrong.

TOOLCHAINS["go"].candidate   # the script that builds a candidate's program in a sandbox
absent("go")                 # the programs that are not installed
"""

import shutil
from dataclasses import dataclass

from scripts.judge.sandbox.libraries import TUPLES

JAVATUPLES = "|".join(TUPLES)

JAVA = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+DisplayVMOutputToStderr")
JAVA_OPTIONS = ("-Xmx{megabytes}m", "-Xss64m", "-ea", "-cp")
JAVAC_OPTIONS = "-J-Xmx512m -J-XX:+UseSerialGC -J-XX:TieredStopAtLevel=1 -nowarn -proc:none --limit-modules java.base"
# The compiler's own classes, loaded and checked once: a third of the cost of compiling one file.
JAVAC = f"javac -J-XX:SharedArchiveFile=/opt/javac/classes.jsa -J-Xlog:disable {JAVAC_OPTIONS}"
JAR = "cd classes; $PYTHON -m zipfile -c /tmp/out *"
RUSTC = "$RUST/bin/rustc --edition 2021 -A warnings -C debuginfo=0 -C strip=symbols --extern stagecraft=$CHANNEL"
# The tests check indices: a result may be shorter than they expect.
CPP_TESTS = "-std=c++17 -O1 -w -D_GLIBCXX_ASSERTIONS"
# A candidate may have a main() of its own.
CPP_CANDIDATE = "-std=c++17 -O1 -w -Dmain=candidate_main"


@dataclass(frozen=True)
class Toolchain:
    """How programs of one language are built, run and judged; the shell scripts run in a sandbox and write /tmp/out.

    Attributes:
        programs: that must be installed.
        packages: that install them on Debian and Ubuntu.
        tests: script that builds the tests' program from its sources in /tmp.
        serving: script that builds, with the tests, what the candidate is linked to as /opt/serving; empty if nothing.
        candidate: script that builds the candidate's program from its sources in /tmp.
        run_tests, run_candidate: the commands that start the programs, which are files at /run/program.
        missing: pattern of a compiler's message if a library is not installed.
        unsupported: pattern of a compiler's message if the channel cannot pass a type of the function's signature.
        memory: pattern of a program's last message if it is out of memory.
    """

    programs: tuple[str, ...]
    packages: str
    tests: str
    serving: str
    candidate: str
    run_tests: tuple[str, ...]
    run_candidate: tuple[str, ...]
    missing: str
    unsupported: str
    memory: str


TOOLCHAINS = {
    "cpp": Toolchain(
        programs=("g++",),
        packages="g++ libboost-dev",
        tests=f"g++ {CPP_TESTS} -include /opt/headers/$HEADERS/tests.hpp -s -o out tests.cpp",
        serving=f"g++ {CPP_TESTS} -include /opt/headers/$HEADERS/tests.hpp -c -o out serve.cpp",
        candidate=f"g++ {CPP_CANDIDATE} -include /opt/headers/$HEADERS/candidate.hpp -c candidate.cpp;"
        " g++ -s -Wl,-z,muldefs -o out candidate.o /opt/serving",
        run_tests=("/run/program",),
        run_candidate=("/run/program",),
        missing=r"fatal error: \S+: No such file|undefined reference to `\w+'",  # the latter without C++'s parameters
        unsupported=r"stagecraft: values of this type cannot be passed",
        memory=r"std::bad_alloc",
    ),
    "rust": Toolchain(
        programs=("rustc", "cc"),
        packages="rustc",
        tests=f"{RUSTC} -o out tests.rs",
        serving="",
        candidate=f"{RUSTC} -o out candidate.rs",
        run_tests=("/run/program",),
        run_candidate=("/run/program",),
        missing=r"unlinked crate|missing crate|can't find crate|`(?:Rng|Regex|md5|rand|regex)`",
        unsupported=r"stagecraft: values of type `[^`]*` cannot be passed",
        memory=r"memory allocation of \d+ bytes failed",
    ),
    "go": Toolchain(
        programs=("go",),
        packages="golang-go golang-github-stretchr-testify-dev",
        tests="$GO tool compile -p main -importcfg /opt/importcfg -o main.a tests.go;"
        " $GO tool link -s -w -importcfg /opt/importcfg -o out main.a",
        serving="",
        candidate="$GO tool compile -p main -importcfg /opt/importcfg -o main.a candidate.go serve.go;"
        " $GO tool link -s -w -importcfg /opt/importcfg -o out main.a",
        run_tests=("/run/program",),
        run_candidate=("/run/program",),
        missing=r"could not import|can't find import",
        unsupported=r"$^",  # found when the tests start
        memory=r"out of memory|cannot allocate memory",
    ),
    "java": Toolchain(
        programs=("javac", "java"),
        packages="default-jdk-headless",
        tests=f"mkdir classes; {JAVAC} -cp /opt/channel.jar$JARS -d classes Tests.java; {JAR}",
        serving="",
        candidate=f"mkdir classes; {JAVAC} -cp .$JARS -d classes $TYPE.java; {JAR}",
        run_tests=(
            *JAVA,
            *JAVA_OPTIONS,
            "/opt/channel.jar:/opt/program.jar{jars}",
            "stagecraft.Channel",
            "tests",
            "{main}",
        ),
        run_candidate=(
            *(*JAVA, *JAVA_OPTIONS, "/opt/channel.jar:/opt/program.jar{jars}"),
            *("stagecraft.Channel", "candidate", "{type}", "{entry}"),
        ),
        missing=rf"package [\w.]+ does not exist|symbol:\s+class (?:{JAVATUPLES})\b",
        unsupported=r"$^",  # found when a value of the type is passed
        memory=r"java\.lang\.OutOfMemoryError",
    ),
}


def absent(language: str) -> str:
    """The programs of a language that are not installed, as one text."""
    return ", ".join(name for name in TOOLCHAINS[language].programs if not shutil.which(name))
