"""HumanEval+ and MBPP+ in both published forms: right solutions pass, those that only the added tests catch do not.

The records are small ones in the fields and wording of the published files: of EvalPlus' own form as in its
MbppPlus-v0.1.0.jsonl, of the other as its tools/{humaneval,mbpp}/to_original_fmt.py writes it.
"""

import pytest

from scripts.common.errors import UserError
from scripts.evaluation.benchmarks.formats import problems_of, read
from scripts.evaluation.benchmarks.prompts import program
from scripts.experiment.settings.code import Benchmark
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
OWN_HUMANEVAL_PLUS = {
    key: HUMANEVAL_PLUS[key] for key in ("task_id", "prompt", "entry_point", "canonical_solution")
} | {
    "contract": "\n    assert number > 0 # $_CONTRACT_$\n",
    "base_input": [[3.5], [1.33]],
    "atol": 1e-6,
    "plus_input": [[1000000000.5], [5e-324]],
}
OWN_MBPP_PLUS = {
    "task_id": "Mbpp/750",
    "prompt": '"""\nWrite a function to add the given tuple to the given list.\n"""\n',
    "entry_point": "add_tuple",
    "canonical_solution": "\ndef add_tuple(test_list, test_tup):\n  test_list += test_tup\n  return test_list\n",
    "base_input": [[[5, 6, 7], [9, 10]]],
    "atol": 0,
    "plus_input": [[[], [1]], [[1.5], []]],
    "contract": "",
    "assertion": "\nassert add_tuple([5, 6, 7], (9, 10)) == [5, 6, 7, 9, 10]\n",
}

# A record of each form, a completion that is right otherwise than the reference, one that only an added input catches.
FORMS = {
    "HumanEval+": (HUMANEVAL_PLUS, "    return number - int(number)\n", "    return min(number % 1, 4e8 - number)\n"),
    "MBPP+": (
        MBPP_PLUS,
        "def similar_elements(a, b):\n    return [x for x in a if x in b]\n",
        "def similar_elements(a, b):\n    a[0]\n    return {4, 5}\n",
    ),
    "HumanEval+, own form": (
        OWN_HUMANEVAL_PLUS,
        "    return number - int(number)\n",
        "    return number % 1 if number < 9 else 0.25\n",
    ),
    "MBPP+, own form": (
        OWN_MBPP_PLUS,
        "def add_tuple(a, b):\n    assert type(b) is tuple\n    return a + list(b)\n",
        "def add_tuple(a, b):\n    return a and a + list(b)\n",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_right_solutions_pass_and_added_tests_catch_wrong_ones(judge, tmp_path, form):
    record, right, wrong = FORMS[form]
    (problem,) = read(written(tmp_path / "plus.jsonl", [record]))
    for text, outcomes in ((problem.canonical, {"passed"}), (right, {"passed"}), (wrong, {"wrong", "exception"})):
        verdict = judge.judge(problem, program(problem, text, "completion"))
        assert verdict.outcome in outcomes, (text, verdict)


def test_without_the_added_tests_the_wrong_solutions_would_pass(judge, tmp_path):
    for record, _, wrong in (FORMS["HumanEval+, own form"], FORMS["MBPP+, own form"]):
        (problem,) = read(written(tmp_path / "base.jsonl", [record | {"plus_input": {}}]))
        assert judge.judge(problem, program(problem, wrong, "completion")).outcome == "passed"


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
