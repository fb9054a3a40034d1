"""Attacks on what separates tests and program; none passes. And tests that would let any program pass are named."""

import json

import pytest

from scripts.judge.judge import Judge
from scripts.judge.problem import Problem
from scripts.judge.sandbox.program import Limits
from scripts.judge.sandbox.toolchains import TOOLCHAINS, absent
from tests.judge.sandbox.forged_answers import CHANNEL, COMPILED, PRINTED, PYTHON
from tests.judge.sandbox.programs import PROBLEMS

pytestmark = pytest.mark.usefixtures("unharmed")
FAILED = ("wrong", "exception", "compile error", "timeout", "memory", "unjudged")
DOUBLE = Problem("S/1", "python", "", "", json.dumps([["1\n", "2\n"], ["5\n", "10\n"]]), "", (), judge="stdio")


@pytest.fixture(scope="module")
def quick(sandbox):
    return Judge(sandbox, Limits(5, 512 << 20))


def python(tests):
    return Problem("T/1", "python", "def f(x):\n", "def f(x):\n    pass\n", tests, "f", ())


@pytest.mark.parametrize("name", PYTHON)
def test_an_attack_on_the_channel_does_not_pass(quick, name):
    tests, program = PYTHON[name]
    verdict = quick.judge(python(tests), program)
    assert verdict.outcome in FAILED, verdict


@pytest.mark.parametrize("name", PRINTED)
def test_printing_more_or_other_than_the_right_output_does_not_pass(quick, name):
    verdict = quick.judge(DOUBLE, PRINTED[name])
    assert verdict.outcome in FAILED, verdict
    assert quick.judge(DOUBLE, "print(2 * int(input()))").outcome == "passed"


@pytest.mark.soak
@pytest.mark.parametrize("attack", COMPILED, ids=lambda attack: f"{attack.language} {attack.name}")
def test_an_attack_in_a_compiled_language_does_not_pass(sandbox, attack):
    if missing := absent(attack.language):
        pytest.skip(f"needs {missing}: apt-get install {TOOLCHAINS[attack.language].packages}")
    verdict = Judge(sandbox, Limits(10, 512 << 20)).judge(PROBLEMS[attack.language], attack.program)
    assert verdict.outcome in FAILED, verdict


def test_python_tests_that_never_use_the_program_are_at_fault(quick):
    for tests in ("def test_f():\n    assert f(1) == 2\n", "assert 1 + 1 == 2\n"):
        verdict = quick.judge(python(tests), "def f(x): return None")
        assert (verdict.outcome, verdict.detail) == ("test error", "the tests never use the program")


def test_a_program_cannot_blame_the_tests(quick):
    """Its answers are unreadable, which these tests put up with as with any exception."""
    verdict = quick.judge(python("try:\n    f(1)\nexcept Exception:\n    pass\n"), f"{CHANNEL}answer('?')")
    assert verdict.outcome == "passed", verdict


# Tests whose failure a runner may overlook: (head, tests, right, wrong).
OVERLOOKED = {
    "rust result": (
        "fn f(x: i32) -> i32 {\n",
        "#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n    #[allow(unused)]\n"
        "    fn t() -> Result<(), String> {\n"
        '        if f(1) == 2 { Ok(()) } else { Err("no".into()) }\n    }\n}\n',
        "2 * x\n}",
        "x\n}",
    ),
    "java exit code": (
        "class Solution {\n    public int f(int x) {\n",
        "public class Main {\n    static int found = new Solution().f(1);\n"
        "    public static void main(String[] args) {\n        if (found != 2) System.exit(1);\n    }\n}\n",
        "return 2 * x;",
        "return x;",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", OVERLOOKED)
def test_a_failure_of_the_tests_other_than_a_failed_assertion_counts_as_wrong(quick, case):
    language = case.split()[0]
    if missing := absent(language):
        pytest.skip(f"needs {missing}")
    head, tests, right, wrong = OVERLOOKED[case]
    problem = Problem("O/1", language, head, head, tests, "f", ())
    closing = "\n    }\n}\n" if language == "java" else ""
    assert quick.judge(problem, f"{head}{right}{closing}").outcome == "passed"
    verdict = quick.judge(problem, f"{head}{wrong}{closing}")
    assert verdict.outcome == "wrong", verdict


@pytest.mark.slow
def test_a_java_program_that_throws_while_the_tests_are_loaded_is_at_fault_itself(quick):
    if missing := absent("java"):
        pytest.skip(f"needs {missing}")
    head, tests, right, _ = OVERLOOKED["java exit code"]
    problem = Problem("L/1", "java", head, head, tests, "f", ())
    verdict = quick.judge(problem, f"{head}if (x == 1) throw new ExceptionInInitializerError(); {right}\n    }}\n}}\n")
    assert verdict.outcome == "exception", verdict


@pytest.mark.slow
@pytest.mark.parametrize("tests", ["func checkF(t *testing.T) { f(1) }", "func ExampleF() { f(1) }\nfunc TestG() {}"])
def test_go_tests_that_are_not_run_are_at_fault(quick, tests):
    if missing := absent("go"):
        pytest.skip(f"needs {missing}")
    head = "func f(x int) int {\n"
    problem = Problem("G/1", "go", head, head, f"{tests}\n", "f", (), None, 'import (\n"testing"\n)\n')
    verdict = quick.judge(problem, f"{head}return 7\n}}\n")
    assert verdict.outcome == "test error" and "only_functions_named_Test" in verdict.detail, verdict


@pytest.mark.slow
def test_a_rust_test_that_should_panic_is_refused(quick):
    if missing := absent("rust"):
        pytest.skip(f"needs {missing}")
    head = "fn f(x: i32) -> i32 {\n"
    tests = "mod tests {\n    use super::*;\n    #[test]\n    #[should_panic]\n    fn t() { f(1); }\n}\n"
    verdict = quick.judge(Problem("P/1", "rust", head, head, tests, "f", ()), f"{head}panic!()\n}}")
    assert verdict.outcome == "test error" and "of this kind cannot be judged" in verdict.detail, verdict
