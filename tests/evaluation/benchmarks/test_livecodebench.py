"""LiveCodeBench's records, from file to verdict: standard input, methods, packed cases; programs that cheat."""

import base64
import json
import os
import pickle
import zlib
from dataclasses import replace

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.benchmarks import formats as livecodebench
from scripts.evaluation.benchmarks.formats import read
from scripts.evaluation.benchmarks.judge_generations import judge_generations, read_generations
from scripts.evaluation.benchmarks.prompts import program, prompt_of
from scripts.judge.judge import Judge, difference
from scripts.judge.sandbox.program import Limits
from tests.evaluation.benchmarks.test_formats import written

CASES = [("3\n1 2 3\n", "6\n"), ("1\n-5\n", "-5\n"), ("2\n0.5 0.25\n", "0.75")]
STDIN = {
    "question_title": "Sum",
    "question_content": "Print the sum of n numbers.",
    "platform": "atcoder",
    "question_id": "abc1_a",
    "contest_id": "abc1",
    "contest_date": "2023-08-01T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps([{"input": CASES[0][0], "output": CASES[0][1], "testtype": "stdin"}]),
    "private_test_cases": "",
    "metadata": "{}",
}
METHOD = {
    **STDIN,
    "question_id": "3000",
    "starter_code": "class Solution:\n    def total(self, nums: List[int], more: int) -> List[int]:\n        ",
    "public_test_cases": json.dumps([{"input": "[1, 2]\n3", "output": "[6, 2]", "testtype": "functional"}]),
    "private_test_cases": json.dumps([{"input": "[]\n0", "output": "[0, 0]", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "total"}),
}
RIGHT = "input()\nprint(sum(map(float, input().split())))"
RIGHT_METHOD = (
    "class Solution:\n    def total(self, nums: List[int], more: int):\n        return sum(nums) + more, len(nums)"
)


def packed(cases: list, dump=pickle.dumps) -> str:
    """The private cases as the published files hold them."""
    tests = [{"input": stdin, "output": expected, "testtype": "stdin"} for stdin, expected in cases]
    return base64.b64encode(zlib.compress(dump(json.dumps(tests)))).decode()


STDIN["private_test_cases"] = packed(CASES[1:])


@pytest.fixture(scope="module")
def quick(sandbox):
    return Judge(sandbox, Limits(3, 256 << 20))


@pytest.fixture
def problems(tmp_path):
    return {problem.id: problem for problem in read(written(tmp_path / "test5.jsonl", [STDIN, METHOD]))}


def test_prompts_are_those_of_the_reference(problems):
    (turn,) = prompt_of(problems["abc1_a"], "chat")
    assert turn["content"].startswith("### Question:\nPrint the sum of n numbers.\n\n### Format: Read the inputs from")
    assert "```python\n# YOUR CODE HERE\n```" in turn["content"]
    (turn,) = prompt_of(problems["3000"], "chat")
    assert f"```python\n{METHOD['starter_code']}\n```" in turn["content"]
    assert prompt_of(problems["3000"], "completion").endswith(METHOD["starter_code"])
    assert program(problems["3000"], f"Here:\n```python\n{RIGHT_METHOD}\n```", "chat").strip() == RIGHT_METHOD


def test_a_plain_function_answers_a_functional_problem_as_in_the_reference(problems):
    """LiveCodeBench's own harness takes the module where there is no class Solution."""
    name = json.loads(METHOD["metadata"])["func_name"]
    plain = program(problems["3000"], f"```python\ndef {name}(*given):\n    return 7\n```", "chat")
    names = {}
    exec(plain, names)  # noqa: S102, it is this test's own
    assert getattr(names["Solution"](), name)(1, 2) == 7
    other = "def another():\n    return 7\n"
    assert program(problems["3000"], f"```python\n{other}```", "chat") == other


STDIO_PROGRAMS = {
    "float sums print 6.0, which is the number 6": (RIGHT, "passed"),
    "white space at the ends": ("input()\nprint('', sum(map(float, input().split())), '  \\n\\n')", "passed"),
    "a function that runs only as a program": (
        "if __name__ == '__main__':\n    " + RIGHT.replace("\n", "\n    "),
        "passed",
    ),
    "names that the reference imports": (
        "stdin.readline()\nprint(reduce(add, map(float, stdin.readline().split())))",
        "passed",
    ),
    "the first case by heart": ("print(6)", "wrong"),
    "another number of lines": (RIGHT + "\nprint(0)", "wrong"),
    "nothing": ("", "wrong"),
    "exit 0": ("import os\nos._exit(0)", "wrong"),
    "exit 0 in the end": ("raise SystemExit(0)", "wrong"),
    "right, but it fails afterwards": (RIGHT + "\nraise ValueError('planted')", "exception"),
    "a syntax error": ("print(", "compile error"),
    "no such package": ("import nobody_has_this", "environment error"),
    "too slow": ("while True: pass", "timeout"),
    "too much memory": ("x = bytearray(1 << 40)", "memory"),
    "too much output": ("while True: print('x' * 100000)", "exception"),
    "expected outputs in files": (
        "import glob\nfor path in glob.glob('/tmp/**', recursive=True) + glob.glob('/proc/*/environ'):\n"
        "    try: print(open(path).read())\n    except OSError: pass",
        "wrong",
    ),
    "notes for the next case": (
        "import os\nopen('/tmp/n', 'a').write('x')\nprint({1: 6, 2: -5, 3: .75}[os.path.getsize('/tmp/n')])",
        "wrong",
    ),
    "its input, to be read again": ("import os\nos.write(0, b'x')\nprint(6)", "wrong"),
    "a signalling NaN": ("print('sNaN')", "wrong"),
    "NaN": ("print('nan')", "wrong"),
    "a number without end": ("print('1e999999999')", "wrong"),
}


@pytest.mark.parametrize("name", STDIO_PROGRAMS)
def test_programs_that_read_standard_input_are_judged_by_their_output(problems, quick, unharmed, name):
    code, outcome = STDIO_PROGRAMS[name]
    verdict = quick.judge(problems["abc1_a"], code)
    assert verdict.outcome == outcome, verdict
    assert outcome == "passed" or verdict.detail.startswith("case ")


METHOD_PROGRAMS = {
    "a tuple where a list is right": (RIGHT_METHOD, "passed"),
    "a wrong sum": (RIGHT_METHOD.replace("+ more", ""), "wrong"),
    "no class": ("def total(nums, more): return [6, 2]", "exception"),
    "an object equal to all": (
        "class Equal(list):\n    def __eq__(self, other): return True\n"
        "class Solution:\n    def total(self, *a): return Equal()",
        "wrong",
    ),
    "exit 0": ("class Solution:\n    def total(self, *a):\n        import os; os._exit(0)", "exception"),
    "exit at once": ("import os; os._exit(0)", "exception"),
}


@pytest.mark.parametrize("name", METHOD_PROGRAMS)
def test_programs_with_a_method_are_judged_by_its_results(problems, quick, unharmed, name):
    code, outcome = METHOD_PROGRAMS[name]
    verdict = quick.judge(problems["3000"], code)
    assert verdict.outcome == outcome, verdict


def test_a_long_output_beyond_ascii_is_kept_whole(problems, quick):
    long = replace(problems["abc1_a"], tests=json.dumps([["", "中" * 100_000]]))  # 3 bytes each
    assert quick.judge(long, "print('中' * 100_000)").outcome == "passed"


def test_outputs_are_compared_as_the_reference_does():
    """Cases of lcb_runner/evaluation/testing_util.py: numbers exactly, not nearly."""
    same = [("1 2\n3", "1 2 \n3\n\n"), ("1.50 2", "1.5 2.0"), ("YES", "YES"), ("1e2", "100"), ("", "\n")]
    different = [
        ("yes", "YES"),
        ("50000000000000001", "50000000000000000"),
        ("1 2", "1"),
        ("a 1.0", "a 1"),
        ("1\n2", "1 2"),
    ]
    assert [difference(*pair) for pair in same] == [""] * len(same)
    assert all(difference(*pair) for pair in different)


class Harmful:
    def __reduce__(self):
        return os._exit, (97,)


BAD = {
    "a pickle that runs": ({"private_test_cases": packed([], lambda _: pickle.dumps(Harmful()))}, "names posix._exit"),
    "no base64": ({"private_test_cases": "#"}, "neither JSON nor a packed text"),
    "cut off": ({"private_test_cases": STDIN["private_test_cases"][:40]}, "private_test_cases"),
    "a number": ({"private_test_cases": packed([], lambda _: pickle.dumps(7))}, "neither JSON nor"),
    "kinds mixed": ({"private_test_cases": METHOD["private_test_cases"]}, "testtype: must be stdin or functional in"),
    "no case": ({"public_test_cases": "[]", "private_test_cases": "[]"}, "testtype: must be stdin or functional in"),
    "another field": ({"hidden": "1"}, "format has no hidden"),
    "no metadata": ({**METHOD, "metadata": "{}"}, "'func_name'"),
    "no JSON": ({**METHOD, "private_test_cases": METHOD["private_test_cases"].replace("[]", "[")}, "Expecting"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_record_is_a_one_line_error(tmp_path, name):
    changes, line = BAD[name]
    path = written(tmp_path / "b.jsonl", [STDIN | changes])
    with pytest.raises(UserError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: line 1: ") and line in str(error.value), error.value


def test_cases_that_unpack_without_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(livecodebench, "LARGEST", 1 << 10)
    path = written(tmp_path / "b.jsonl", [STDIN | {"private_test_cases": packed([("x" * 9999, "y")])}])
    with pytest.raises(UserError, match="private_test_cases: more than 0 MB"):
        read(path)


def test_published_programs_are_judged_problem_by_problem(tmp_path, quick):
    """The form that lcb_runner's custom_evaluator reads."""
    problems = read(written(tmp_path / "test5.jsonl", [STDIN, METHOD]))
    solutions = [
        {"question_id": "3000", "code_list": [RIGHT_METHOD, "x"]},
        {"question_id": "abc1_a", "code_list": [RIGHT]},
    ]
    (tmp_path / "out.json").write_text(json.dumps(solutions))
    rows = judge_generations(problems, read_generations(tmp_path / "out.json", problems), quick)
    assert [(row["id"], row["sample"], row["outcome"]) for row in rows] == [
        *[("3000", 0, "passed"), ("3000", 1, "exception"), ("abc1_a", 0, "passed")]
    ]
