"""HumanEval+ and MBPP+ as published as data sets: right solutions pass, those that only the added tests catch do not.

The records are small ones in the fields and wording that EvalPlus' tools/{humaneval,mbpp}/to_original_fmt.py writes.
"""

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.benchmarks.formats import problems_of, read
from scripts.evaluation.benchmarks.prompts import program
from scripts.experiment.settings.suites import Benchmark
from tests.evaluation.benchmarks.test_formats import HUMANEVAL, MBPP, written

ASSERTION = """import numpy as np

def is_floats(x) -> bool:
    # check if it is float; List[float]; Tuple[float]
    if isinstance(x, float):
        return True
    if isinstance(x, (list, tuple)) and x:
        return all(isinstance(i, float) for i in x)
    if isinstance(x, np.ndarray):
        return x.dtype == np.float64 or x.dtype == np.float32
    return False


def assertion(out, exp, atol):
    exact_match = out == exp

    if atol == 0 and is_floats(exp):
        atol = 1e-6
    if not exact_match and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact_match
"""
HUMANEVAL_PLUS = {
    "task_id": "HumanEval/2",
    "prompt": 'def truncate_number(number: float) -> float:\n    """The decimal part."""\n',
    "entry_point": "truncate_number",
    "canonical_solution": "    return number % 1.0\n",
    "test": f"""\n\n{ASSERTION}

def check(candidate):
    inputs = [[3.5], [1.33], [1e9 + 0.5]]
    results = [0.5, 0.33000000000000007, 0.5]
    for i, (inp, exp) in enumerate(zip(inputs, results)):
        assertion(candidate(*inp), exp, 0)
""",
}
MBPP_PLUS = {
    "task_id": 2,
    "code": "\ndef similar_elements(test_tup1, test_tup2):\n  return tuple(set(test_tup1) & set(test_tup2))\n",
    "prompt": "Write a function to find the shared elements from the given two lists.",
    "source_file": "Benchmark Questions Verification V2.ipynb",
    "test_imports": [],
    "test_list": ["assert set(similar_elements((3, 4, 5, 6),(5, 7, 4, 10))) == set((4, 5))"],
    "test": f"""{ASSERTION}
inputs = [[(3, 4, 5, 6), (5, 7, 4, 10)], [(), (1,)]]
results = [(4, 5), ()]
for i, (inp, exp) in enumerate(zip(inputs, results)):
    assertion(tuple(sorted(similar_elements(*inp))), exp, 0)
""",
}
# A record of each form, a completion that is right otherwise than the reference, one that only an added input catches.
FORMS = {
    "HumanEval+": (HUMANEVAL_PLUS, "    return number - int(number)\n", "    return min(number % 1, 4e8 - number)\n"),
    "MBPP+": (
        MBPP_PLUS,
        "def similar_elements(a, b):\n    return [x for x in a if x in b]\n",
        "def similar_elements(a, b):\n    a[0]\n    return {4, 5}\n",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_right_solutions_pass_and_added_tests_catch_wrong_ones(judge, tmp_path, form):
    record, right, wrong = FORMS[form]
    (problem,) = read(written(tmp_path / "plus.jsonl", [record]))
    for text, outcomes in ((problem.canonical, {"passed"}), (right, {"passed"}), (wrong, {"wrong", "exception"})):
        verdict = judge.judge(problem, program(problem, text, "completion"))
        assert verdict.outcome in outcomes, (text, verdict)


def test_a_field_that_would_be_ignored_is_refused_by_name(tmp_path):
    path = written(tmp_path / "b.jsonl", [{**HUMANEVAL, "hidden_tests": "", "difficulty": 3}])
    with pytest.raises(UserError) as error:
        read(path)
    assert str(error.value) == (
        f"{path}: line 1: HumanEval's format has no difficulty, hidden_tests, and a field that is not read may hold"
        " tests; remove it, or name it in the benchmark's `ignore` if it holds none"
    )
    assert len(read(path, ["difficulty", "hidden_tests"])) == 1
    # HumanEvalPack has HumanEval's fields and more: of another language, with other tests
    pack = {**HUMANEVAL, "declaration": "", "buggy_solution": "", "test_setup": ""}
    with pytest.raises(UserError, match=r"no buggy_solution"):
        read(written(tmp_path / "pack.jsonl", [pack]))


def test_problems_are_chosen_by_id_exclusion_and_number(tmp_path):
    path = str(written(tmp_path / "b.jsonl", [{**MBPP, "task_id": number} for number in range(5)]))

    def chosen(**settings):
        return [problem.id for problem in problems_of(Benchmark(path=path, **settings))]

    assert chosen(limit=2) == ["MBPP/0", "MBPP/1"]
    assert chosen(ids=["MBPP/3", "MBPP/1"]) == ["MBPP/3", "MBPP/1"]
    assert chosen(exclude=["MBPP/0"], limit=2) == ["MBPP/1", "MBPP/2"]
    with pytest.raises(UserError, match=r"exclude: .* has no problem MBPP/9; its first is MBPP/0"):
        chosen(exclude=["MBPP/9"])
    with pytest.raises(UserError, match=r"`exclude` and `few_shot` leave no problem"):
        chosen(ids=["MBPP/1"], exclude=["MBPP/1"])
