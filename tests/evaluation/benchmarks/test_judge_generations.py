"""scripts/evaluation/benchmarks/judge_generations.py: published generations are judged, disagreements named."""

import json
import shutil

import pytest

from scripts.cli import judge
from scripts.common.errors import UserError
from scripts.common.files import read_jsonl, write_jsonl
from scripts.evaluation.benchmarks.formats import read
from scripts.evaluation.benchmarks.judge_generations import (
    Generation,
    judge_generations,
    read_generations,
    source,
    summary_lines,
)
from scripts.judge.problem import FAULTS
from tests.evaluation.benchmarks.test_formats import HUMANEVAL, MULTIPL_E, UNION, written

SECOND = {**HUMANEVAL, "task_id": "HumanEval/1"}
RIGHT, WRONG = "    return x + 1\n", "    return x\n"
WHOLE = {text: HUMANEVAL["prompt"] + text for text in (RIGHT, WRONG)}
FORMS = {
    "samples.jsonl": [
        {"task_id": "HumanEval/0", "completion": RIGHT},
        {"task_id": "HumanEval/1", "solution": WHOLE[WRONG]},
    ],
    "generations.json": [[WHOLE[RIGHT]], [WHOLE[WRONG]]],
    "one_each.json": [WHOLE[RIGHT], WHOLE[WRONG]],
    "eval_results.json": {
        "eval": {
            "HumanEval/0": [{"solution": WHOLE[RIGHT], "base_status": "pass", "plus_status": "fail"}],
            "HumanEval/1": [{"solution": WHOLE[WRONG], "base_status": "fail", "plus_status": "fail"}],
        }
    },
    "eval_all.json": [
        {"question_id": "HumanEval/0", "code_list": [WHOLE[RIGHT]], "graded_list": [False]},
        {"question_id": "HumanEval/1", "code_list": [WHOLE[WRONG]], "graded_list": [False]},
    ],
    "items.jsonl.zst": [
        {"id": "HumanEval/0", "written": [WHOLE[RIGHT]], "verdicts": [{"outcome": "wrong", "detail": ""}]},
        {"id": "HumanEval/1", "written": [WHOLE[WRONG]], "verdicts": [{"outcome": "wrong", "detail": ""}]},
    ],
}


@pytest.fixture
def problems(tmp_path):
    return read(written(tmp_path / "b.jsonl", [HUMANEVAL, SECOND]))


def write(path, content):
    if path.suffix == ".zst":
        write_jsonl(path, content)
    elif path.suffix == ".jsonl":
        written(path, content)
    else:
        path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("name", FORMS)
def test_each_form_is_judged_problem_by_problem(judge, problems, tmp_path, name):
    generations = read_generations(write(tmp_path / name, FORMS[name]), problems)
    rows = judge_generations(problems, generations, judge)
    assert [(row["id"], row["outcome"]) for row in rows] == [("HumanEval/0", "passed"), ("HumanEval/1", "wrong")]
    lines = summary_lines(rows, 2)
    assert lines[0] == "pass@1 0.5000 over all 2 problems (2 programs, 1 for each)"
    if rows[0]["published"] is not None:
        line = "published: 0 of 2 passed; of 2 programs that could be judged 1 are judged otherwise here:"
        assert lines[2] == line
        assert lines[3:] == ["  HumanEval/0 (0): published failed, here passed"]


def test_a_line_separator_in_a_program_does_not_end_its_record(problems, tmp_path):
    records = [{"task_id": problem.id, "completion": "    return 'a\u2028\x85'\n"} for problem in problems]
    (tmp_path / "raw.jsonl").write_text("\n".join(json.dumps(record, ensure_ascii=False) for record in records))
    found = read_generations(tmp_path / "raw.jsonl", problems)
    assert [generation.text for generation in found] == [record["completion"] for record in records]


def outcomes(*pairs):
    return [{"id": name, "outcome": outcome, "published": None, "detail": ""} for name, outcome in pairs]


def test_a_part_of_the_problems_makes_no_score_of_the_benchmark():
    first = summary_lines(outcomes(("a", "passed"), ("a", "wrong"), ("b", "passed")), 10)[0]
    assert first.startswith("no score of the benchmark: programs for 2 of its 10 problems (3, 1 to 2 for each)")
    assert first.endswith("pass@1 of this part 0.7500, 0.1500 if the others count as not passed")


@pytest.mark.parametrize("fault", FAULTS)
def test_programs_that_could_not_be_judged_make_no_score(fault):
    first, second = summary_lines(outcomes(("a", "passed"), ("b", fault)), 2)
    assert first == "not measured: 1 of 2 programs could not be judged, as the tests or the sandbox failed"
    assert second == f"1 passed, 1 {fault}"


def test_unjudged_programs_are_reported_beside_the_score_and_are_no_disagreement():
    rows = outcomes(("a", "passed"), ("b", "wrong"), ("c", "unjudged"), ("d", "unjudged"))
    first, _, third = summary_lines([row | {"published": True, "sample": 0} for row in rows], 4)[:3]
    assert first.startswith("pass@1 0.2500 over all 4 problems (4 programs, 1 for each); 2 programs are unjudged")
    assert first.endswith("0.5000 of the others passed")
    assert third == "published: 4 of 4 passed; of 2 programs that could be judged 1 are judged otherwise here:"


@pytest.mark.soak
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++: apt-get install g++")
def test_problems_that_two_processes_cannot_judge_are_counted_beside_the_others(sandbox, tmp_path, capsys):
    union = MULTIPL_E["prompt"].replace("long f(long x)", f"{UNION}long f(Union_long_string x)")
    second = MULTIPL_E | {"name": "HumanEval_1_f", "prompt": union}
    written(tmp_path / "b.jsonl", [MULTIPL_E, second])
    bodies = {record["name"]: f"{record['prompt']}    return x + 1;\n}}\n" for record in (MULTIPL_E, second)}
    samples = [{"task_id": name, "solution": text} for name, text in bodies.items()]
    judge(tmp_path / "b.jsonl", write(tmp_path / "s.jsonl", samples), out=tmp_path / "out")
    first, second, _ = capsys.readouterr().out.splitlines()
    assert second == "1 passed, 1 unjudged" and first.endswith("1.0000 of the others passed")


def test_closing_braces_that_multipl_e_leaves_to_its_tests_are_added(tmp_path):
    record = {
        "name": "X_0_twice",
        "language": "cpp",
        "prompt": "#include<cassert>\n// Twice the number.\nlong twice(long number) {\n",
        "tests": "}\nint main() {\n    assert(twice(1) == 2);\n}\n",
        "stop_tokens": ["\n}"],
    }
    problem = read(written(tmp_path / "cpp.jsonl", [record]))[0]
    for text, is_program in (
        ("    return 1;\n}\nint more", False),
        (f"{problem.head}    return 1;\n", True),
    ):
        made = source(problem, Generation(problem.id, text, is_program))
        assert made.count("{") == made.count("}") == 1 and "more" not in made


def test_the_command_writes_a_verdict_per_program(sandbox, problems, tmp_path, capsys):
    path = write(tmp_path / "samples.jsonl", FORMS["samples.jsonl"])
    judge(tmp_path / "b.jsonl", path, out=tmp_path / "out")
    assert capsys.readouterr().out.splitlines()[1] == "1 passed, 1 wrong"
    assert [row["sample"] for row in read_jsonl(tmp_path / "out/verdicts.jsonl.zst")] == [0, 0]


def test_of_an_answer_in_markdown_the_block_with_the_function_is_judged_and_of_a_program_all(problems):
    problem = problems[0]
    program = f"def {problem.entry}(a):\n    return a\n"
    for answer in (
        f"```python\n{program}```",
        f"Sure! `{problem.entry}` is:\n\n```python\n{program}```\nIt returns `a`.\n```\n{problem.entry}(1)\n```",
        f"First install it.\n```bash\npip install x\n```\nThen:\n  ```\n{program}",
    ):
        for is_program in (True, False):
            assert source(problem, Generation(problem.id, answer, is_program)) == f"{problem.head}\n{program}"
    documented = f'def {problem.entry}(a):\n    """\n```\n{problem.entry}(1)\n```\n    """\n    return a\n'
    assert source(problem, Generation(problem.id, documented, True)) == documented
    completion = "    return a\n```\nThis returns a."
    assert source(problem, Generation(problem.id, completion, False)) == problem.head + completion


BAD = {
    "a.json": ([[RIGHT]], "programs for 1 problems; the benchmark has 2"),
    "d.jsonl": ([{"task_id": "HumanEval/0", "completion": 5}], "HumanEval/0: the program must be text, not 5"),
    "a.jsonl": (
        [{"task_id": "HumanEval/9", "completion": ""}],
        "1 programs for problems that are not in the benchmark, such as",
    ),
    "b.jsonl": ([{"name": "x"}], "neither EvalPlus' samples or eval_results.json, nor"),
    "b.json": ({"results": 1}, "neither EvalPlus' samples or eval_results.json, nor"),
    "c.jsonl": ([], "holds no program"),
}


@pytest.mark.parametrize("name", BAD)
def test_generations_that_cannot_be_read_are_one_line_errors(problems, tmp_path, name):
    content, line = BAD[name]
    with pytest.raises(UserError, match=line):
        read_generations(write(tmp_path / f"x{name}", content), problems)
