"""BigCodeBench's records, from file to verdict: unittest classes; what two processes cannot judge is named."""

import sys

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.benchmarks.formats import problems_of, read
from scripts.evaluation.benchmarks.prompts import program, prompt_of
from scripts.experiment.settings.code import Benchmark
from scripts.judge.judge import Judge
from scripts.judge.sandbox.packages import Packages, with_imports
from scripts.judge.sandbox.program import Limits
from tests.evaluation.benchmarks.test_formats import written

PROMPT = 'import collections\nimport random\n\ndef task_func(items, count=2):\n    """The most common items."""\n'
RIGHT = (
    "    if count < 0:\n        raise ValueError('count')\n    return collections.Counter(items).most_common(count)\n"
)
TESTS = """
import unittest
import numpy as np

class TestCases(unittest.TestCase):
    def setUp(self):
        self.items = ["a", "b", "a"]

    def test_case_1(self):
        self.assertEqual(task_func(self.items), [("a", 2), ("b", 1)])
        self.assertIsInstance(task_func(self.items), list)

    def test_case_2(self):
        with self.assertRaises(ValueError):
            task_func(self.items, -1)

    def test_case_3(self):
        for count in range(3):
            with self.subTest(count=count):
                self.assertEqual(len(task_func(self.items, count)), count)
"""
RECORD = {
    "task_id": "BigCodeBench/0",
    "complete_prompt": PROMPT,
    "instruct_prompt": "Find the most common items.\\nYou should write self-contained code starting with:\\n",
    "canonical_solution": RIGHT,
    "code_prompt": PROMPT.partition('    """')[0],
    "test": TESTS,
    "entry_point": "task_func",
    "doc_struct": "{}",
    "libs": "['collections', 'random']",
}
WHOLE = "import collections\ndef task_func(items, count=2):\n"


@pytest.fixture(scope="module")
def quick(sandbox):
    return Judge(sandbox, Limits(5, 512 << 20))


@pytest.fixture
def problem(tmp_path):
    (read_problem,) = read(written(tmp_path / "bcb.jsonl", [RECORD]))
    return read_problem


PROGRAMS = {
    "right": (RIGHT, "passed"),
    "wrong in the first test": ("    return [('b', 1)]\n", "wrong"),
    "no error where one is right": (RIGHT.replace("raise ValueError('count')", "return []"), "wrong"),
    "another error": (RIGHT.replace("ValueError", "KeyError"), "exception"),
    "wrong in a subtest alone": (RIGHT.replace("most_common(count)", "most_common(count or 2)"), "wrong"),
    "exit 0": ("    import os; os._exit(0)\n", "exception"),
    "exit 0 at once": ("    pass\nimport os; os._exit(0)\n", "exception"),
    "unittest that always passes": (
        "    return []\nimport unittest\nunittest.TestResult.addFailure = unittest.TestResult.addError = print\n"
        "unittest.TestCase.assertEqual = unittest.TestCase.run = lambda *a, **k: None\n",
        "wrong",
    ),
    "a list equal to all": (
        "    return Equal()\nclass Equal(list):\n    __len__ = __eq__ = lambda *a: True\n",
        "wrong",
    ),
    "an object of its own where a list is right": (
        "    return Equal()\nclass Equal:\n    __class__ = list\n    def __eq__(self, other): return True\n",
        "unjudged",
    ),
    "the tests skipped": ("    import unittest\n    raise unittest.SkipTest('not today')\n", "exception"),
    "a package that is not there": ("    import nobody_has_this\n", "environment error"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_are_judged_by_the_unittest_class(problem, quick, unharmed, name):
    body, outcome = PROGRAMS[name]
    verdict = quick.judge(problem, PROMPT + body)
    assert verdict.outcome == outcome, verdict


def test_the_prompt_for_completions_and_the_one_for_chats_are_those_of_the_record(problem):
    assert prompt_of(problem, "completion") == PROMPT
    (turn,) = prompt_of(problem, "chat")
    assert turn["content"] == RECORD["instruct_prompt"]
    assert program(problem, f"{RIGHT}\nprint(task_func([]))", "completion") == PROMPT + RIGHT


INSPECTS = """    return str(inspect.signature(f)), f.__name__, f.__doc__, isinstance(f, types.LambdaType), f(1)\n"""
INSPECTED = """
import unittest

class TestCases(unittest.TestCase):
    def test_functions(self):
        def plain(x, y=2, *rest, z=(3, None), **more): "Text."; return x, y, rest, z, more
        def marked(x: int, /, y: "text" = "a", *, z: None = None) -> list: return x, y, z
        self.assertEqual(task_func(plain), ("(x, y=2, *rest, z=(3, None), **more)", "plain", "Text.", True,
                                            (1, 2, (), (3, None), {})))
        self.assertEqual(task_func(marked), ("(x: int, /, y: 'text' = 'a', *, z: None = None) -> list", "marked", None,
                                             True, (1, "a", None)))
        self.assertEqual(task_func(lambda x: -x), ("(x)", "<lambda>", None, True, -1))
"""


def test_a_program_may_inspect_a_function_of_the_tests(tmp_path, quick):
    head = 'import inspect\nimport types\n\ndef task_func(f):\n    """Look."""\n'
    record = RECORD | {"complete_prompt": head, "canonical_solution": INSPECTS, "test": INSPECTED}
    (problem,) = read(written(tmp_path / "b.jsonl", [record]))
    verdict = quick.judge(problem, head + INSPECTS)
    assert verdict.outcome == "passed", verdict
    verdict = quick.judge(problem, head + INSPECTS.replace("f.__name__", "'g'"))
    assert verdict.outcome == "wrong", verdict


def test_a_program_may_use_what_only_the_tests_import(tmp_path, quick):
    """As in the reference harness, where both are one file."""
    head = 'import json\n\ndef task_func(day):\n    """When."""\n'
    tests = TESTS.partition("class")[0] + "from datetime import datetime as clock, timedelta\nimport os.path\n"
    tests += "class TestCases(unittest.TestCase):\n    def test(self):\n"
    tests += "        self.assertEqual(task_func(1), (86400, '/'))\n"
    (problem,) = read(written(tmp_path / "b.jsonl", [RECORD | {"complete_prompt": head, "test": tests}]))
    verdict = quick.judge(problem, f"{head}    return timedelta(day).total_seconds(), os.path.sep")
    assert verdict.outcome == "passed", verdict
    own = f"from __future__ import annotations\n{head}    return timedelta(day), os.path.sep\ndef timedelta(n):\n"
    assert quick.judge(problem, f"{own}    return n * 86400\n").outcome == "passed"  # its own names are its own
    verdict = quick.judge(problem, f"{head}    return unittests.main()")
    assert verdict.outcome == "exception", verdict
    assert with_imports(problem.imports, f"{head}    return clock.now(), np.array") == (
        "\nimport numpy as np\nfrom datetime import datetime as clock"
    )


DRAWS = """    plt.bar(range(len(heights)), heights)
    return plt.gca(), np.float32(0.5), np.int64(3), np.float64(2), (x for x in heights)
"""
DRAWN = """
import types
import unittest
import matplotlib.pyplot as plt
import numpy as np

class TestCases(unittest.TestCase):
    def tearDown(self):
        plt.close("all")

    def test_1(self):
        axes, half, three, two, items = task_func([1, 2])
        self.assertEqual(len(axes.patches), 2)
        self.assertIsInstance(half, np.float32)
        self.assertEqual((three.tolist(), three.dtype, two.item()), (3, np.int64, 2.0))
        self.assertIsInstance(items, types.GeneratorType)
        self.assertEqual(list(items), [1, 2])

    def test_2(self):
        self.assertEqual(len(task_func([3])[0].patches), 1)
"""


@pytest.mark.slow
def test_numbers_of_numpy_and_generators_arrive_and_figures_are_closed_where_they_are_drawn(tmp_path, sandbox):
    head = 'import matplotlib.pyplot as plt\nimport numpy as np\n\ndef task_func(heights):\n    """Draw."""\n'
    record = RECORD | {"complete_prompt": head, "canonical_solution": DRAWS, "test": DRAWN}
    (problem,) = read(written(tmp_path / "b.jsonl", [record]))
    patient = Judge(sandbox, Limits(60, 2 << 30), Packages.from_environment(sys.prefix))
    verdict = patient.judge(problem, head + DRAWS)
    assert verdict.outcome == "passed", verdict
    assert patient.judge(problem, head + DRAWS.replace("heights)\n", "heights[1:])\n", 1)).outcome == "wrong"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("from unittest.mock import patch", "the tests replace functions inside the program (mock)"),
        ("import tempfile", "the tests exchange files with the program"),
        ("import random\nrandom.seed(1)", "the tests seed the random numbers that the program draws"),
        (
            "import matplotlib.pyplot as plt\nplt.gcf()",
            "the tests look at pyplot's current figure, which the program draws",
        ),
    ],
)
def test_problems_that_only_one_process_can_judge_are_refused_or_left_out_and_counted(tmp_path, quick, line, why):
    path = str(written(tmp_path / "bcb.jsonl", [RECORD, RECORD | {"task_id": "B/1", "test": f"{line}\n{TESTS}"}]))
    with pytest.raises(
        UserError,
        match=r"1 of 2 problems, such as B/1, cannot be judged in two processes \(.*\); .*unjudged",
    ):
        problems_of(Benchmark(path=path))
    assert [kept.id for kept in problems_of(Benchmark(path=path, unjudged="leave out"))] == ["BigCodeBench/0"]
    both = problems_of(Benchmark(path=path, unjudged="count"))
    verdict = quick.judge(both[1], PROMPT + RIGHT)
    assert (verdict.outcome, verdict.detail) == ("unjudged", why)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"test": "def f(:"}, "test: invalid syntax"),
        ({"test": "def check(f): pass"}, "test: no class TestCases"),
        ({"hidden": ""}, "format has no hidden"),
        ({"instruct_prompt": None}, "its request must be text"),
    ],
)
def test_a_bad_record_is_a_one_line_error(tmp_path, changes, line):
    path = written(tmp_path / "b.jsonl", [RECORD | changes])
    with pytest.raises(UserError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: line 1: ") and line in str(error.value), error.value
