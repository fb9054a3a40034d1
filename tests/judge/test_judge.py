"""scripts/judge/judge.py: cheats do not pass, correct code does, and outcomes are distinguished."""

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.benchmarks import formats
from scripts.evaluation.benchmarks.formats import Problem
from scripts.judge.judge import Judge, judge_all
from scripts.judge.problem import Verdict
from scripts.judge.sandbox.packages import NONE, VERSION, Packages
from scripts.judge.sandbox.program import Limits
from tests.judge.sandbox.cheats import CHEATS
from tests.judge.sandbox.programs import needs_cpp

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
    assert verdict.outcome in ("wrong", "exception", "unjudged"), verdict
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


def outcome_of(judge, code, tests, head="", **more):
    return judge.judge(Problem("T/1", "python", head, head, tests, "f", (), **more), code).outcome


PLAIN = [
    *("None", "True", "-5", "1 << 20000", "0.1", "inf", "-inf", "-0.0", "2 - 3j", r"'é\n\0\\\\\ud800'", r"b'\xff\n'"),
    *("bytearray(b'x')", "[]", "[[1], (2,), ()]", "{1: {'a': None}, (1, 2): []}", "{}", "set()", "{1, 2}"),
    *("frozenset([3])", "range(2, 9, 3)", "list(range(100000))"),
]


@pytest.mark.slow
def test_values_of_all_plain_types_arrive_as_they_are(judge):
    values = f"inf = float('inf')\nvalues = [{', '.join(PLAIN)}]\n"
    code = f"{values}def f(number, given):\n    return [given, values[number], given == values[number]]\n"
    tests = f"{values}for n, value in enumerate(values):\n    assert repr(f(n, value)) == repr([value, value, True])\n"
    assert outcome_of(judge, code, tests) == "passed"


def test_other_values_become_the_nearest_plain_ones(judge):
    names = "from collections import Counter, namedtuple\nfrom fractions import Fraction\nfrom decimal import Decimal\n"
    names += "from http import HTTPStatus\n"
    values = "Counter('aab'), namedtuple('P', 'x')(1), iter([1, 2]), Fraction(1, 3), Decimal('0.10'), HTTPStatus.OK"
    tests = "a, b, c, d, e, f = f()\nassert (a, b, list(c), d, str(e), f) == "
    expected = "({'a': 2, 'b': 1}, (1,), [1, 2], Fraction(1, 3), '0.10', 200)\n"
    assert outcome_of(judge, f"{names}def f():\n    return {values}\n", f"{names}{tests}{expected}") == "passed"


# Honest programs, each with tests that pass in one process, and how they are judged across two.
HONEST = {
    "a deque": ("from collections import deque\ndef f(): return deque([1], 3)", "passed"),
    "keys": ("def f(): return {1: 2}.keys()", "passed"),
    "items": ("def f(): return {1: 2}.items()", "passed"),
    "a date": ("from datetime import date\ndef f(): return date(2020, 2, 29)", "passed"),
    "a moment": ("from datetime import *\ndef f(): return datetime(2020, 1, 2, 3, tzinfo=timezone.utc)", "passed"),
    "a named tuple": ("from collections import namedtuple\ndef f(): return namedtuple('P', 'x y')(1, 2)", "passed"),
    "a match": ("import re\ndef f(): return re.match('a', 'ab')", "passed"),
    "a class": ("def f(): return int", "passed"),
    "a generator": ("def f(): return (n for n in range(3))", "passed"),
    "own equality": (
        "class P:\n    def __eq__(self, other): return True\n    __hash__ = None\ndef f(): return P()",
        "unjudged",
    ),
    "own arithmetic": ("class P:\n    def __sub__(self, other): return 0\ndef f(): return P()", "unjudged"),
}
USES = {
    "a deque": "from collections import deque\nassert f() == deque([1]) and f().maxlen == 3\n",
    "keys": "assert f() == {1} and list(f()) == [1] and f() == {1: 5}.keys()\n",
    "items": "assert f() == {(1, 2)}\n",
    "a date": "from datetime import date\nassert f() == date(2020, 2, 29) and f().weekday() == 5\n",
    "a moment": "from datetime import *\nassert f() == datetime(2020, 1, 2, 3, tzinfo=timezone.utc)\n",
    "a named tuple": "assert f() == (1, 2) and f().y == 2\n",
    "a match": "assert f()\nassert f().group() == 'a'\n",
    "a class": "assert f() is int and f()('3') == 3\n",
    "a generator": "assert list(f()) == [0, 1, 2]\n",
    "own equality": "assert f() == f()\n",
    "own arithmetic": "assert abs(f() - 3) < 1\n",
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_results_are_judged_right_or_refused_by_name(judge, name):
    code, outcome = HONEST[name]
    names = {}
    exec(f"{code}\n{USES[name]}", names)  # noqa: S102, in one process its tests pass
    verdict = judge.judge(Problem("T/1", "python", "", "", USES[name], "f", ()), code)
    assert verdict.outcome == outcome, verdict
    assert outcome == "passed" or "class solution.P" in verdict.detail


IN_PLACE = {
    ("def f(x): x.sort()", "a = [2, 1]\nf(a)\nassert a == [1, 2]"): "passed",
    ("def f(x): x[0][1] = 9", "a = [[1, 2]]\nrow = a[0]\nf(a)\nassert row == [1, 9]"): "passed",
    ("def f(x): x.sort(); return x", "assert f([2, 1]) == [1, 2]"): "passed",
    ("def f(x): x[0] = (9,); return x", "assert f([(1,)]) == [(9,)]"): "passed",
    ("def f(x): x.update(b=1)", "a = {}\nf(a)\nassert a == {'b': 1}"): "passed",
    ("def f(x): pass", "a = [2, 1]\nf(a)\nassert a == [1, 2]"): "wrong",
    # what the tests expect is computed from an argument that the program emptied
    ("def f(x): x.clear(); return []", "a = [2, 1]\nassert f(a) == sorted(a)"): "unjudged",
    ("def f(x): x.clear()", "a = [2, 1]\nassert f(a) == (max(a) if a else None)"): "unjudged",
    ("def f(x): x.sort()", "a = [2, 1]\nassert not f(a)\nassert a == [1, 2]"): "unjudged",
    ("def f(x): x.append(0)", "assert f([1]) is None"): "passed",
    ("def f(x): x.append(0); return 2", "a = [2, 1]\nassert f(a) == 2\nassert a == [2, 1, 0]"): "unjudged",
}


@pytest.mark.parametrize("case", IN_PLACE, ids=range(len(IN_PLACE)))
def test_changes_of_arguments_reach_the_tests_and_help_no_program(judge, case):
    assert outcome_of(judge, *case) == IN_PLACE[case]


FUNCTIONS = {
    ("def f(g, x): return g(x) + 1", "assert f(lambda n: n * 2, 5) == 11"): "passed",
    ("def f(g, x): return sorted(x, key=g)", "assert f(len, ['aa', 'b']) == ['b', 'aa']"): "passed",
    ("def f(x, kind): return [n for n in x if isinstance(n, kind)]", "assert f([1, 'a'], int) == [1]"): "passed",
    ("def f(g): return g()", "def h(): raise KeyError(1)\ntry: f(h)\nexcept KeyError: pass\nelse: assert 0"): "passed",
    ("def f(g): return g()", "def h(): return f(len)\nf(h)"): "unjudged",
    ("def f(x): return x", "class T: pass\nf(T())"): "unjudged",
}


FAULTS = {
    "import nothing_of_this_name\nassert f(1) == 1\n": "ModuleNotFoundError",
    "assert f(1) ==\n": "SyntaxError",
    "expected = [][0]\nassert f(1) == expected\n": "IndexError",
}


@pytest.mark.parametrize("tests", FAULTS)
def test_a_fault_of_the_tests_is_not_the_programs(judge, tests):
    verdict = judge.judge(Problem("T/1", "python", "", "", tests, "f", ()), "def f(x): return x\n")
    assert (verdict.outcome, FAULTS[tests] in verdict.detail) == ("test error", True), verdict


def test_a_prompt_that_does_not_run_is_the_benchmarks_fault(judge):
    assert outcome_of(judge, "def f(): pass\n", "f()\n", head="import nothing_of_this_name\n") == "test error"


def test_an_environment_can_be_given_to_programs(sandbox, tmp_path):
    folder = tmp_path / "lib" / VERSION / "site-packages"
    folder.mkdir(parents=True)
    (folder / "tripling.py").write_text("def triple(x): return 3 * x\n")
    problem = Problem("T/1", "python", "", "", "import tripling\nassert f(1) == tripling.triple(1)\n", "f", ())
    code = "import tripling\ndef f(x): return tripling.triple(x)\n"
    assert NONE.missing(problem) == {"tripling"}
    other_judge = Judge(sandbox, Limits(10, 512 << 20), Packages.from_environment(str(tmp_path)))
    assert (other_judge.packages.missing(problem), other_judge.judge(problem, code).outcome) == (set(), "passed")
    with pytest.raises(UserError, match=f"evaluation.code.python: .*: no packages in lib/{VERSION}/site-packages"):
        Packages.from_environment(str(tmp_path / "lib"))


@pytest.mark.slow
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.soak)])
def test_the_canonical_python_solutions_pass(benchmarks, judge, step):
    problems = formats.read(benchmarks / "HumanEval.jsonl.gz")[::step]
    verdicts = judge_all(judge, [(problem, problem.head + problem.canonical) for problem in problems])
    failed = {p.id: v for p, v in zip(problems, verdicts, strict=True) if v.outcome != "passed"}
    assert (failed, len(problems)) == ({}, len(range(0, 164, step)))


# The problems of HumanEval-X C++ whose solutions need boost or libcrypto, which may be absent.
LIBRARIES = {22, 137, 162}


def canonical(folder, judge, chosen):
    needs_cpp()
    problems = formats.read(folder / "humaneval_cpp.jsonl.gz")
    problems = [problem for number, problem in enumerate(problems) if chosen is None or number in chosen]
    verdicts = judge_all(judge, [(problem, problem.head + problem.canonical) for problem in problems])
    return {problem.id: verdict for problem, verdict in zip(problems, verdicts, strict=True)}


@pytest.fixture(scope="module")
def patient(sandbox):
    """Time and memory for busy computers."""
    return Judge(sandbox, Limits(60, 1 << 30))


@pytest.mark.slow
def test_a_sample_of_the_canonical_solutions_in_cpp_passes(benchmarks, patient):
    verdicts = canonical(benchmarks, patient, {0, 136})
    assert {verdict.outcome for verdict in verdicts.values()} == {"passed"}, verdicts


@pytest.mark.soak
def test_all_canonical_solutions_in_cpp_pass_but_for_missing_libraries(benchmarks, patient):
    verdicts = canonical(benchmarks, patient, None)
    failed = {int(name.split("/")[1]): verdict for name, verdict in verdicts.items() if verdict.outcome != "passed"}
    assert len(verdicts) == 164
    assert set(failed) <= LIBRARIES, failed
    assert {verdict.outcome for verdict in failed.values()} <= {"environment error", "test error"}, failed
