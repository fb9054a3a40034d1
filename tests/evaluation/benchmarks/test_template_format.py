"""scripts/evaluation/benchmarks/template_format.py: a YAML file defines the format of a benchmark; few-shot; errors."""

import pytest
import yaml

from scripts.common.errors import UserError
from scripts.evaluation.benchmarks import formats
from scripts.evaluation.benchmarks.files import records
from scripts.evaluation.benchmarks.formats import problems_of
from scripts.evaluation.benchmarks.prompts import program, prompt_of
from scripts.evaluation.benchmarks.template_format import TemplateFormat
from scripts.experiment.settings.code import Benchmark, Code
from scripts.experiment.suites import problem_files, prompts_from, scored_datasets
from scripts.judge.problem import HUMANEVAL_STOPS
from tests.evaluation.benchmarks.test_formats import HUMANEVAL, written

# a benchmark in nobody's format: numbers as ids, a function's name and pairs in place of test code
OURS = {
    "id": "ours/{{ number }}",
    "prompt": 'def {{ name }}(x):\n    """{{ what }}"""\n',
    "tests": "{% for x, y in pairs %}assert {{ name }}({{ x }}) == {{ y }}\n{% endfor %}",
    "canonical": "{{ solution | default('') }}",
}
RECORD = {"number": 7, "name": "more", "what": "One more.", "pairs": [["1", "2"], ["-1", "0"]]}
RECORD |= {"solution": "    return x + 1\n"}


def benchmark(folder, records, form, **settings) -> Benchmark:
    (folder / "form.yaml").write_text(form if isinstance(form, str) else yaml.safe_dump(form))
    path = written(folder / "ours.jsonl", records)
    return Benchmark(path=str(path), format=str(folder / "form.yaml"), **settings)


def test_one_yaml_makes_the_problems_of_a_new_benchmark(tmp_path):
    (problem,) = problems_of(benchmark(tmp_path, [RECORD], OURS))
    assert (problem.id, problem.language, problem.entry) == ("ours/7", "python", "more")
    assert problem.prompt == problem.head == 'def more(x):\n    """One more."""\n'
    assert problem.tests == "assert more(1) == 2\nassert more(-1) == 0\n"
    assert (problem.canonical, problem.stops) == ("    return x + 1\n", HUMANEVAL_STOPS)


@pytest.mark.parametrize(("solution", "outcome"), [(RECORD["solution"], "passed"), ("    return x\n", "wrong")])
def test_programs_for_a_format_of_ones_own_are_judged(tmp_path, judge, solution, outcome):
    (problem,) = problems_of(benchmark(tmp_path, [RECORD], OURS))
    assert judge.judge(problem, program(problem, solution, "completion")).outcome == outcome


def test_a_format_file_can_describe_humaneval(benchmarks):
    """All 164 problems as the code that read them before made them."""
    for _, record in records(benchmarks / "HumanEval.jsonl.gz"):
        problem = formats.HUMANEVAL.read(record)
        assert problem.prompt == problem.head == record["prompt"]
        assert problem.tests == f"{record['test']}\ncheck({record['entry_point']})\n"
        assert (problem.id, problem.entry) == (record["task_id"], record["entry_point"])
        assert problem.canonical == record["canonical_solution"] and problem.stops == HUMANEVAL_STOPS


BAD = {
    "a field that nobody reads": (OURS, {"hidden_tests": "assert more(2) == 3"}, "format has no hidden_tests, and a"),
    "a field that is not there": (
        OURS | {"canonical": "{{ solution }}{{ answer }}"},
        {},
        "canonical: 'answer' is undefined",
    ),
    "a list in place of a text": (OURS, {"name": ["more"]}, "prompt: must be text, not list"),
    "null in place of a text": (OURS, {"what": None}, "prompt: must be text, not NoneType"),
    "no function": (OURS | {"prompt": "{{ name }} {{ what }}"}, {}, "does not contain the beginning of a function"),
    "an unknown language": (OURS | {"language": "cobol"}, {}, "language 'cobol' is not known"),
    "no tests": (OURS, {"pairs": []}, "tests: empty"),
    "an endless loop": (OURS | {"tests": "{% for i in range(10 ** 12) %}{% endfor %}{{ pairs }}"}, {}, "tests: Range"),
    "a look behind the scenes": (OURS | {"tests": "{{ name.__class__.__mro__ }}{{ pairs }}"}, {}, "tests: "),
    "stops that are none": (OURS | {"stops": "pairs"}, {}, "stops: the record's pairs is no list of texts"),
    "no template": (OURS | {"tests": "{{ pairs"}, {}, "form.yaml: tests: not a template: "),
    "an unknown key": (OURS | {"promt": "x"}, {}, "form.yaml: promt: unknown key; did you mean `prompt`?"),
    "no id": ({**OURS, "id": None}, {}, "form.yaml: id: must be text"),
    "no mapping": ("- a", {}, "form.yaml: must hold a mapping"),
    "stdio in Java": (OURS | {"judge": "stdio", "language": "java"}, {}, "`judge: stdio` is for python, not java"),
    "no cases": (OURS | {"judge": "stdio", "tests": "{{ pairs | tojson }}"}, {}, "a case in `tests` has no `input`"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_format_that_does_not_fit_the_records_is_a_one_line_error(tmp_path, case):
    form, changes, line = BAD[case]
    with pytest.raises(UserError) as error:
        problems_of(benchmark(tmp_path, [RECORD | changes], form))
    assert line in str(error.value) and "\n" not in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_a_field_that_holds_no_tests_is_named_by_the_format_or_by_the_experiment(tmp_path):
    record = RECORD | {"author": "somebody"}
    assert problems_of(benchmark(tmp_path, [record], OURS | {"ignore": ["author"]}))
    assert problems_of(benchmark(tmp_path, [record], OURS, ignore=["author"]))


def test_the_format_is_an_input_of_the_suite_and_decides_its_prompts(tmp_path):
    code = Code(benchmarks=[benchmark(tmp_path, [RECORD], OURS)])
    assert problem_files(code) == [str(tmp_path / "ours.jsonl"), str(tmp_path / "form.yaml")]
    assert scored_datasets(code) == ["ours"]
    assert prompts_from(code)["benchmarks"][0]["format"] == str(tmp_path / "form.yaml")
    assert TemplateFormat(tmp_path / "form.yaml").known == {"number", "name", "what", "pairs", "solution"}


def test_few_shot_examples_stand_solved_before_each_prompt_and_are_not_scored(tmp_path):
    shots = [{**HUMANEVAL, "task_id": f"HumanEval/{number}"} for number in range(3)]
    path = str(written(tmp_path / "h.jsonl", shots))
    chosen = problems_of(Benchmark(path=path, few_shot=["HumanEval/2", "HumanEval/0"]))
    assert [problem.id for problem in chosen] == ["HumanEval/1"]
    solved, (problem,) = HUMANEVAL["prompt"] + "    return x + 1\n\n\n", chosen
    assert prompt_of(problem, "completion") == 2 * solved + HUMANEVAL["prompt"]
    turns = prompt_of(problem, "chat")
    assert [turn["role"] for turn in turns] == [*2 * ["user", "assistant"], "user"]
    assert turns[0] == turns[-1] and "return x + 1" in turns[1]["content"]
    assert program(problem, "    return 1\n", "completion") == HUMANEVAL["prompt"] + "    return 1\n"
    unsolved = [{key: value for key, value in shots[0].items() if key != "canonical_solution"}, shots[1]]
    written(tmp_path / "h.jsonl", unsolved)
    with pytest.raises(UserError, match=r"few_shot: .*h.jsonl has no solution of HumanEval/0"):
        problems_of(Benchmark(path=path, few_shot=["HumanEval/0"]))
    with pytest.raises(UserError, match=r"few_shot: .*h.jsonl has no problem HumanEval/7"):
        problems_of(Benchmark(path=path, few_shot=["HumanEval/7"]))
