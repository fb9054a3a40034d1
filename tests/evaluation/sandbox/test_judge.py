"""scripts/evaluation/sandbox/judge.py: cheats do not pass, correct code does, and outcomes are distinguished."""

import pytest

from scripts.evaluation.benchmarks import formats
from scripts.evaluation.benchmarks.formats import Problem
from scripts.evaluation.sandbox.compilers import TOOLCHAINS, absent
from scripts.evaluation.sandbox.judge import Judge, judge_all
from scripts.evaluation.sandbox.program import Limits
from scripts.evaluation.sandbox.verdict import Verdict
from tests.evaluation.sandbox.cheats import CHEATS

pytestmark = pytest.mark.usefixtures("unharmed")

HEAD = 'SCALE = 3\n\n\ndef helper(x):\n    return x * SCALE\n\n\ndef triple(x):\n    """Three times x."""\n'
TESTS = """
import math

def check(candidate):
    assert candidate(2) == 6, "SECRET-OF-THE-TESTS: IN THE JUDGE"
    assert candidate([1]) == [1, 1, 1]
    assert not candidate(0)
    assert helper(candidate(1)) == 9
    assert math.isclose(candidate(0.5), 1.5)
check(triple)
"""
PYTHON = Problem("T/0", "python", HEAD, HEAD, TESTS, "triple", ())


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_does_not_pass_and_the_next_program_does(judge, name):
    verdict = judge.judge(PYTHON, f"{HEAD}    return None\n\n{CHEATS[name]}\n")
    assert verdict.outcome in ("wrong", "exception"), verdict
    assert judge.judge(PYTHON, HEAD + "    return x * 3\n") == Verdict("passed", "")


OUTCOMES = {
    "    return x * 3": "passed",
    "    print('noise' * 1000)\n    return x * 3": "passed",
    "    return x * 2": "wrong",
    "    return": "wrong",
    "    raise KeyError(x)": "exception",
    "    return missing(x)": "exception",
    "    assert False": "exception",
    "    return triple(x)": "exception",
    "    return (": "compile error",
    "  return x": "compile error",
    "    while True: pass": "timeout",
    "    import time; time.sleep(99)": "timeout",
    "    return [0] * (1 << 40)": "memory",
    "    import numpy": "environment error",
    "    return x * 3\n\nimport torch.nn": "environment error",
    "    import collections.nothing": "exception",
}


@pytest.mark.parametrize("body", OUTCOMES)
def test_outcomes_are_distinguished(sandbox, body):
    quick = Judge(sandbox, Limits(2 if OUTCOMES[body] == "timeout" else 20, 512 << 20))
    assert quick.judge(PYTHON, f"{HEAD}{body}\n").outcome == OUTCOMES[body]


def outcome_of(judge, code, tests, head=""):
    return judge.judge(Problem("T/1", "python", head, head, tests, "f", ()), code).outcome


PLAIN = [
    *("None", "True", "-5", "1 << 20000", "0.1", "inf", "-inf", "-0.0", "2 - 3j", r"'é\n\0\\\\\ud800'", r"b'\xff\n'"),
    *("bytearray(b'x')", "[]", "[[1], (2,), ()]", "{1: {'a': None}, (1, 2): []}", "{}", "set()", "{1, 2}"),
    *("frozenset([3])", "range(2, 9, 3)", "list(range(100000))"),
]


def test_values_of_all_plain_types_arrive_as_they_are(judge):
    values = f"inf = float('inf')\nvalues = [{', '.join(PLAIN)}]\n"
    code = f"{values}def f(number, given):\n    return [given, values[number], given == values[number]]\n"
    tests = f"{values}for n, value in enumerate(values):\n    assert repr(f(n, value)) == repr([value, value, True])\n"
    assert outcome_of(judge, code, tests) == "passed"


def test_other_values_become_the_nearest_plain_ones(judge):
    names = "from collections import Counter, namedtuple\nfrom fractions import Fraction\nfrom decimal import Decimal\n"
    names += "from http import HTTPStatus\n"
    given = "Counter('aab'), namedtuple('P', 'x')(1), iter([1, 2]), Fraction(1, 3), Decimal('0.10'), HTTPStatus.OK"
    tests = "a, b, c, d, e, f = f()\nassert (a, b, list(c), d, str(e), f) == "
    expected = "({'a': 2, 'b': 1}, (1,), [1, 2], Fraction(1, 3), '0.10', 200)\n"
    assert outcome_of(judge, f"{names}def f():\n    return {given}\n", f"{names}{tests}{expected}") == "passed"


def test_objects_of_the_candidate_can_be_built_set_and_passed_back(judge):
    node = "class Node:\n    def __init__(self, value): self.value, self.left = value, None\n"
    code = f"{node}def f(node): return node.value + (f(node.left) if node.left else 0)\n"
    tests = "root = Node(4)\nroot.left = Node(5)\nassert f(root) == 9\nassert root.value == 4\n"
    assert outcome_of(judge, code, tests) == "passed"
    assert outcome_of(judge, code, "assert Node(4) == Node(4)\n") == "wrong"


def test_exceptions_that_tests_expect_reach_them(judge):
    test = "try:\n    f(-1)\nexcept ValueError as e:\n    assert str(e) == 'less'\nelse:\n    assert False\n"
    assert outcome_of(judge, "def f(x): raise ValueError('less')\n", test) == "passed"
    assert outcome_of(judge, "def f(x): raise TypeError('less')\n", test) == "exception"
    assert outcome_of(judge, "def f(x): return 1\n", test) == "wrong"
    assert outcome_of(judge, "def f(x): return b'\\xff'.decode()\n", "f(1)\n") == "exception"


def test_a_prompt_that_does_not_run_is_the_benchmarks_fault(judge):
    assert outcome_of(judge, "def f(): pass\n", "f()\n", head="import nothing_of_this_name\n") == "sandbox error"


def test_the_canonical_python_solutions_pass(benchmarks, judge):
    problems = formats.read(benchmarks / "HumanEval.jsonl.gz")
    verdicts = judge_all(judge, [(problem, problem.head + problem.canonical) for problem in problems])
    failed = {p.id: v for p, v in zip(problems, verdicts, strict=True) if v.outcome != "passed"}
    assert (failed, len(problems)) == ({}, 164)


# Of the canonical solutions, those that need rand, regex and md5; boost and libcrypto: they may be absent.
LIBRARIES = {"rust": {38, 50, 53, 91, 162}, "cpp": {22, 137, 162}, "go": set(), "java": set()}


def canonical(language, folder, judge, chosen):
    if missing := absent(language):
        pytest.skip(f"needs {missing}: apt-get install {TOOLCHAINS[language].packages}")
    problems = formats.read(folder / f"humaneval_{language}.jsonl.gz")
    problems = [problem for number, problem in enumerate(problems) if chosen is None or number in chosen]
    verdicts = judge_all(judge, [(problem, problem.head + problem.canonical) for problem in problems])
    return {problem.id: verdict for problem, verdict in zip(problems, verdicts, strict=True)}


@pytest.fixture(scope="module")
def patient(sandbox):
    """Time and memory for virtual machines and busy computers."""
    return Judge(sandbox, Limits(60, 1 << 30))


@pytest.mark.parametrize("language", TOOLCHAINS)
def test_a_sample_of_the_compiled_canonical_solutions_passes(benchmarks, patient, language):
    verdicts = canonical(language, benchmarks, patient, {0, 10, 32, 136} if language != "java" else {10, 137})
    assert {one.outcome for one in verdicts.values()} == {"passed"}, verdicts


@pytest.mark.soak
@pytest.mark.parametrize("language", TOOLCHAINS)
def test_all_compiled_canonical_solutions_pass_but_for_missing_libraries(benchmarks, patient, language):
    verdicts = canonical(language, benchmarks, patient, None)
    failed = {int(name.split("/")[1]): verdict for name, verdict in verdicts.items() if verdict.outcome != "passed"}
    assert len(verdicts) == 164
    assert set(failed) <= LIBRARIES[language], failed
    assert {verdict.outcome for verdict in failed.values()} <= {"environment error"}, failed
