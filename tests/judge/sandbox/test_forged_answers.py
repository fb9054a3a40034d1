"""Attacks on what separates tests and program; none passes. And tests that would let any program pass are named."""

import json

import pytest

from scripts.judge.judge import Judge
from scripts.judge.problem import Problem
from scripts.judge.sandbox.program import Limits
from tests.judge.sandbox.forged_answers import CHANNEL, COMPILED, PRINTED, PYTHON
from tests.judge.sandbox.programs import CPP_PROBLEM, needs_cpp

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
def test_an_attack_in_cpp_does_not_pass(sandbox, attack):
    needs_cpp()
    verdict = Judge(sandbox, Limits(10, 512 << 20)).judge(CPP_PROBLEM, attack.program)
    assert verdict.outcome in FAILED, verdict


def test_python_tests_that_never_use_the_program_are_at_fault(quick):
    for tests in ("def test_f():\n    assert f(1) == 2\n", "assert 1 + 1 == 2\n"):
        verdict = quick.judge(python(tests), "def f(x): return None")
        assert (verdict.outcome, verdict.detail) == ("test error", "the tests never use the program")


def test_a_program_cannot_blame_the_tests(quick):
    """Its answers are unreadable, which these tests put up with as with any exception."""
    verdict = quick.judge(python("try:\n    f(1)\nexcept Exception:\n    pass\n"), f"{CHANNEL}answer('?')")
    assert verdict.outcome == "passed", verdict
