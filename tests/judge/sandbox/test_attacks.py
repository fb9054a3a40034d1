"""Attacks on the tests: each defeats a loop that runs tests and program in one process, and does not pass here.

In every run one of each language; all of them: make soak.
"""

import secrets

import pytest

from scripts.judge.judge import Judge
from scripts.judge.problem import Problem
from scripts.judge.sandbox.cpp_judge import COMPILING, INCLUDES
from scripts.judge.sandbox.program import Limits
from tests.judge.sandbox.attacks import ATTACKS, PYTHON_HEAD, PYTHON_TESTS, Attack
from tests.judge.sandbox.programs import CPP_PROBLEM, CPP_TESTS, needs_cpp

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


def loop(attack: Attack) -> tuple[str, str, str]:
    """(file name, source, script) of tests and program as one."""
    if attack.language == "python":
        return "all.py", attack.program + PYTHON_TESTS, "exec $PYTHON all.py"
    tests, level = CPP_TESTS, "-O1"
    if attack.loop == "secret":
        tests = f"#define main twice_tests\n{tests}{CPP_MAIN}".replace("    assert (true", "    return 0;\n//")
        level = "-O0"
    includes = "".join(f"#include <{name}>\n" for name in INCLUDES)
    return "all.cpp", f"{includes}{attack.program}\n{tests}", f"g++ -std=c++17 {level} -w -o out all.cpp; exec ./out"


def defeats_loop(judge: Judge, attack: Attack) -> tuple[bool, bytes]:
    """Whether tests and program as one process would count as passed, and what they wrote to standard error."""
    name, source, script = loop(attack)
    secret = f"SECRET-{secrets.token_hex(16)}".encode()
    sandbox = judge.python.sandbox
    program = sandbox.run(
        ["/bin/sh", "-ec", script],
        COMPILING,
        secret,
        files={f"/tmp/{name}": source.encode()},
        environment={"PYTHON": " ".join(sandbox.python)},
    )
    believed = secret in program.stdout if attack.loop == "secret" else program.code == 0
    return believed, bytes(program.stderr[-2000:]) + repr((program.code, program.killed_for, source)).encode()


def marks(attack: Attack) -> list[pytest.MarkDecorator]:
    """One of each language runs every time."""
    if attack.name not in ("a tracer that leaves the tests", "a jump into main"):
        return [pytest.mark.soak]
    return [] if attack.language == "python" else [pytest.mark.slow]


PARAMETERS = [pytest.param(attack, id=f"{attack.language} {attack.name}", marks=marks(attack)) for attack in ATTACKS]


@pytest.fixture(scope="module")
def quick(sandbox):
    return Judge(sandbox, Limits(5, 512 << 20))


def test_one_attack_of_each_language_runs_every_time():
    languages = [parameter.values[0].language for parameter in PARAMETERS if pytest.mark.soak not in parameter.marks]
    assert sorted(languages) == ["cpp", "python"]


@pytest.mark.parametrize("attack", PARAMETERS)
def test_an_attack_defeats_a_loop_in_one_process_and_does_not_pass_here(quick, attack):
    if attack.language == "cpp":
        needs_cpp()
    believed, errors = defeats_loop(quick, attack)
    assert believed, errors.decode(errors="replace")
    verdict = quick.judge(PYTHON if attack.language == "python" else CPP_PROBLEM, attack.program)
    assert verdict.outcome in ("wrong", "exception", "compile error", "timeout", "unjudged"), verdict
