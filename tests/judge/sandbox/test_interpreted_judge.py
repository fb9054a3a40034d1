"""JavaScript in MultiPL-E's form, from record to verdict: right, wrong, harmful."""

import shutil
import subprocess

import pytest

from scripts.evaluation.benchmarks.formats import read
from scripts.evaluation.benchmarks.prompts import closed, program, prompt_of
from scripts.judge.judge import Judge
from scripts.judge.sandbox.interpreted_judge import NEEDED
from scripts.judge.sandbox.program import Limits
from tests.evaluation.benchmarks.test_formats import written
from tests.judge.sandbox.multipl_e import PROGRAMS, RECORDS

pytestmark = pytest.mark.slow  # starts an interpreter for each program


@pytest.fixture(scope="module")
def quick(sandbox):
    return Judge(sandbox, Limits(4, 512 << 20))


@pytest.fixture
def problems(tmp_path):
    return {
        language: read(written(tmp_path / f"{language}.jsonl", [record]))[0] for language, record in RECORDS.items()
    }


def needs(language):
    """Skip the test if what runs a language is not installed."""
    program, packages = NEEDED[language]
    if not shutil.which(program):
        pytest.skip(f"needs {program}: apt-get install {packages}")


@pytest.mark.parametrize(("language", "text"), PROGRAMS)
def test_programs_get_the_expected_outcome(problems, quick, unharmed, language, text):
    needs(language)
    problem = problems[language]
    assert problem.language == language and problem.entry.lower() == "twice"
    verdict = quick.judge(problem, closed(problem, problem.head + text))
    assert verdict.outcome == PROGRAMS[language, text], verdict


def test_completions_and_chat_answers_become_whole_programs(problems):
    script = problems["javascript"]
    assert program(script, "  return 1;\n}\nfunction g() {}", "completion") == f"{script.head}  return 1;\n}}"
    answer = "```js\nfunction twice(n) { return n; }\n```"
    assert "function twice(n) { return n; }" in program(script, answer, "chat")
    assert program(script, answer, "chat").count("function twice") == 1
    assert "JavaScript" in prompt_of(script, "chat")[0]["content"]


def in_one_process(problem, code, folder):
    """The exit code of the program with its tests behind it, as a plain loop runs them."""
    file = folder / f"all.{RECORDS[problem.language]['language']}"
    file.write_text(f"{code}\n{problem.tests}")
    return subprocess.run(["node", file], capture_output=True, check=False).returncode


ATTACKS = {
    "javascript": [
        "  process.exit(0);\n}",
        "  return numbers;\n}\nprocess.on('exit', () => process.reallyExit(0));",
        "  return numbers;\n}\nrequire('assert').deepEqual = () => {};",
        "  return { get 0() { process.exit(0); } };\n}",
    ],
}


CASES = [pytest.param(language, attack) for language, attacks in ATTACKS.items() for attack in attacks]


@pytest.mark.parametrize(("language", "attack"), CASES)
def test_attacks_that_defeat_a_loop_in_one_process_do_not_pass_here(
    problems, quick, unharmed, tmp_path, language, attack
):
    needs(language)
    problem = problems[language]
    wrong = "  return numbers;\n}"
    assert in_one_process(problem, problem.head + wrong, tmp_path) != 0
    assert in_one_process(problem, problem.head + attack, tmp_path) == 0
    assert quick.judge(problem, problem.head + attack).outcome in ("wrong", "exception")
