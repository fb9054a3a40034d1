"""Attacks on the tests: each defeats a loop that runs tests and program in one process, and does not pass here.

In every run one of each language; all of them: make soak.
"""

import re
import secrets

import pytest

from scripts.judge.judge import Judge
from scripts.judge.problem import Problem
from scripts.judge.sandbox.compiled_judge import COMPILING
from scripts.judge.sandbox.compiled_programs import CPP_INCLUDES, go_file, without_crates
from scripts.judge.sandbox.program import Limits
from scripts.judge.sandbox.toolchains import TOOLCHAINS, absent
from tests.judge.sandbox.attacks import ATTACKS, PYTHON_HEAD, PYTHON_TESTS, Attack
from tests.judge.sandbox.programs import GO_IMPORTS, PROBLEMS, TESTS

pytestmark = pytest.mark.usefixtures("unharmed")

PYTHON = Problem("T/0", "python", PYTHON_HEAD, PYTHON_HEAD, PYTHON_TESTS, "triple", ())

CPP_MAIN = """
#undef main
#include <unistd.h>
int main() {
    char secret[40] = {};
    if (read(0, secret, 39) != 39) return 97;
    int out = dup(1), code = twice_tests();
    if (!code) write(out, secret, 39);
    return code;
}
"""
RUST_MAIN = """
fn main() {
    use std::io::Read;
    let mut secret = [0u8; 39];
    std::io::stdin().read_exact(&mut secret).unwrap();
    tests::test_twice();
    println!("{}", String::from_utf8_lossy(&secret));
}
"""
GO_MAIN = """
import "io"
import "os"

type testT struct{}

func (t *testT) Errorf(format string, values ...interface{}) { os.Exit(96) }
func main() {
    secret := make([]byte, 39)
    io.ReadFull(os.Stdin, secret)
    TestTwice(&testT{})
    os.Stdout.Write(secret)
}
"""
JAVA_MAIN = """
class Launcher {
    private static String secret;
    public static void main(String[] arguments) throws Exception {
        secret = new String(System.in.readNBytes(39));
        Main.main(arguments);
        System.out.println(secret);
    }
}
"""


def loop(attack: Attack) -> tuple[str, str, str]:
    """(file name, source, script) of tests and program as one."""
    program = attack.program
    if attack.language == "python":
        return "all.py", program + PYTHON_TESTS, "exec $PYTHON all.py"
    tests, secret = TESTS[attack.language], attack.loop == "secret"
    match attack.language:
        case "cpp":
            if secret:
                tests = f"#define main twice_tests\n{tests}{CPP_MAIN}".replace("    assert (true", "    return 0;\n//")
            includes = "".join(f"#include <{name}>\n" for name in CPP_INCLUDES)
            level = "-O0" if secret else "-O1"
            return "all.cpp", f"{includes}{program}\n{tests}", f"g++ -std=c++17 {level} -w -o out all.cpp; exec ./out"
        case "rust":
            if secret:
                tests = re.sub(r"#\[test\]\s*fn", "pub fn", tests.replace("#[cfg(test)]", "")) + RUST_MAIN
            kind = "" if secret else "--test"
            build = f"$RUST/bin/rustc --edition 2021 -A warnings {kind} -o out all.rs"
            return "all.rs", f"{without_crates(program)}{tests}", f"{build}; exec ./out"
        case "go":
            source = go_file(f"{program}{tests}{GO_MAIN}".replace("*testing.T", "*testT"), "main", GO_IMPORTS)
            build = "$GO tool compile -p main -importcfg /opt/importcfg -o main.a all.go;"
            return "all.go", source, f"{build} $GO tool link -importcfg /opt/importcfg -o out main.a; exec ./out"
        case "java":
            main, launcher = ("Launcher", JAVA_MAIN) if secret else ("Main", "")
            run = f"javac -nowarn -d classes Main.java; exec java -ea -Xmx64m -XX:+UseSerialGC -cp classes {main}"
            return "Main.java", f"{program}{tests}{launcher}", run
    raise AssertionError(attack.language)


def defeats_loop(judge: Judge, attack: Attack) -> tuple[bool, bytes]:
    """Whether tests and program as one process would count as passed, and what they wrote to standard error."""
    name, source, script = loop(attack)
    view = None if attack.language == "python" else judge.compiled.compilers.of(attack.language)
    secret = f"SECRET-{secrets.token_hex(16)}".encode()
    sandbox = judge.python.sandbox
    program = sandbox.run(
        ["/bin/sh", "-ec", script],
        COMPILING,
        secret,
        folders=view.folders if view else {},
        files={**(view.files if view else {}), f"/tmp/{name}": source.encode()},
        environment={**(view.environment if view else {}), "PYTHON": " ".join(sandbox.python)},
    )
    believed = secret in program.stdout if attack.loop == "secret" else program.code == 0
    return believed, bytes(program.stderr[-2000:]) + repr((program.code, program.killed_for, source)).encode()


STRONG = {
    "python": "a tracer that leaves the tests",
    "cpp": "a jump into main",
    "rust": "a lifetime hole that reads the stack",
    "go": "its own memory",
    "java": "the classes on the stack",
}
PARAMETERS = [
    pytest.param(attack, id=f"{attack.language} {attack.name}", marks=marks)
    for attack in ATTACKS
    for compiled in [[] if attack.language == "python" else [pytest.mark.slow]]
    for marks in [compiled if STRONG[attack.language] == attack.name else [pytest.mark.soak]]
]


@pytest.fixture(scope="module")
def quick(sandbox):
    return Judge(sandbox, Limits(5, 512 << 20))


def test_there_are_at_least_60_attacks_in_every_language():
    assert len(ATTACKS) >= 60
    assert {attack.language for attack in ATTACKS} == {"python", *TOOLCHAINS}
    assert {(attack.language, attack.name) for attack in ATTACKS} >= set(STRONG.items())


@pytest.mark.parametrize("attack", PARAMETERS)
def test_an_attack_defeats_a_loop_in_one_process_and_does_not_pass_here(quick, attack):
    if attack.language != "python" and (missing := absent(attack.language)):
        pytest.skip(f"needs {missing}: apt-get install {TOOLCHAINS[attack.language].packages}")
    believed, errors = defeats_loop(quick, attack)
    assert believed, errors.decode(errors="replace")
    problem = PYTHON if attack.language == "python" else PROBLEMS[attack.language]
    verdict = quick.judge(problem, attack.program)
    assert verdict.outcome in ("wrong", "exception", "compile error", "timeout", "unjudged"), verdict
