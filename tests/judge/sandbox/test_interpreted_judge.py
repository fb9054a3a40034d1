"""JavaScript, TypeScript, PHP, Shell and C# in MultiPL-E's form, from record to verdict: right, wrong, harmful."""

import shutil
import subprocess
from dataclasses import replace

import pytest

from scripts.evaluation.benchmarks.formats import read
from scripts.evaluation.benchmarks.prompts import closed, program, prompt_of
from scripts.judge.judge import Judge
from scripts.judge.sandbox.compiled_programs import CHANNELS
from scripts.judge.sandbox.interpreted_judge import NEEDED
from scripts.judge.sandbox.program import Limits
from scripts.judge.sandbox.toolchains import TOOLCHAINS, absent
from scripts.judge.sandbox.typescript import LIBRARY, installed
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
    if language == "csharp":
        missing, packages = absent(language), TOOLCHAINS[language].packages
    else:
        program, packages = ("tsc", "nodejs node-typescript") if language == "typescript" else NEEDED[language]
        missing = "" if shutil.which(program) else program
    if missing:
        pytest.skip(f"needs {missing}: apt-get install {packages}")


@pytest.mark.parametrize(("language", "text"), PROGRAMS)
def test_programs_get_the_expected_outcome(problems, quick, unharmed, language, text):
    needs(language)
    problem = problems[language]
    assert problem.language == language and problem.entry.lower() == "twice"
    verdict = quick.judge(problem, closed(problem, problem.head + text))
    assert verdict.outcome == PROGRAMS[language, text], verdict


def test_completions_and_chat_answers_become_whole_programs(problems):
    script, shell = problems["javascript"], problems["shell"]
    assert program(shell, "    echo 1\n}\nmore", "completion") == f"{shell.head}    echo 1\n}}"
    assert program(script, "  return 1;\n}\nfunction g() {}", "completion") == f"{script.head}  return 1;\n}}"
    answer = "```js\nfunction twice(n) { return n; }\n```"
    assert "function twice(n) { return n; }" in program(script, answer, "chat")
    assert program(script, answer, "chat").count("function twice") == 1
    assert "JavaScript" in prompt_of(script, "chat")[0]["content"] and "Bash" in prompt_of(shell, "chat")[0]["content"]


def in_one_process(problem, code, folder):
    """The exit code of the program with its tests behind it, as a plain loop runs them."""
    file = folder / f"all.{RECORDS[problem.language]['language']}"
    file.write_text(f"{code}\n{problem.tests}")
    commands = {"php": ["php", "-n", "-d", "display_errors=stderr", file], "javascript": ["node", file]}
    if problem.language == "typescript":
        script = ["node", CHANNELS / "typescript.js", "check", installed() / LIBRARY, file]
        made = subprocess.run(script, capture_output=True, check=True)
        file.with_suffix(".js").write_bytes(made.stdout)
        commands["typescript"] = ["node", file.with_suffix(".js")]
    return subprocess.run(commands[problem.language], capture_output=True, check=False).returncode


ATTACKS = {
    "php": [
        "    exit(0);\n}",
        "    return $numbers;\n}\nexit(0);",
        "    return $numbers;\n}\nregister_shutdown_function(fn () => exit(0));",
        "    register_shutdown_function(fn () => exit(0)); throw new Error();\n}",
        "    pcntl_exec('/bin/true');\n}",
        "    return $numbers;\n}\nclass D { function __destruct() { exit(0); } }\n$d = new D;",
        "    $GLOBALS['d'] = new class { function __destruct() { exit(0); } }; exit(1);\n}",
    ],
    "javascript": [
        "  process.exit(0);\n}",
        "  return numbers;\n}\nprocess.on('exit', () => process.reallyExit(0));",
        "  return numbers;\n}\nrequire('assert').deepEqual = () => {};",
        "  return { get 0() { process.exit(0); } };\n}",
    ],
    "typescript": [
        "  process.exit(0); return numbers;\n}\ndeclare var process: any;",
        "  return numbers;\n}\ndeclare var process: any;\nprocess.on('uncaughtException', () => process.exit(0));",
        "  return numbers;\n}\n(globalThis as any).process.on('exit',"
        " () => (globalThis as any).process.reallyExit(0));",
        "  return numbers;\n}\nrequire('assert').deepEqual = () => {};",
        "  return new Proxy(numbers, { get() { (globalThis as any).process.exit(0); } });\n}",
        "  return numbers;\n}\nArray.prototype.push = function () { (globalThis as any).process.exit(0); return 0; };"
        "\nObject.defineProperty(Object.prototype, 'message',"
        " { set(_: any) { (globalThis as any).process.exit(0); } });",
    ],
}


CASES = [
    # all of PHP, two of the others: a check of types takes seconds
    pytest.param(language, attack, marks=[] if language == "php" or index < 2 else [pytest.mark.soak])
    for language, attacks in ATTACKS.items()
    for index, attack in enumerate(attacks)
]


@pytest.mark.parametrize(("language", "attack"), CASES)
def test_attacks_that_defeat_a_loop_in_one_process_do_not_pass_here(
    problems, quick, unharmed, tmp_path, language, attack
):
    needs(language)
    problem = problems[language]
    wrong = "    return $numbers;\n}" if language == "php" else "  return numbers;\n}"
    assert in_one_process(problem, problem.head + wrong, tmp_path) != 0
    assert in_one_process(problem, problem.head + attack, tmp_path) == 0
    assert quick.judge(problem, problem.head + attack).outcome in ("wrong", "exception")


@pytest.mark.skipif(not shutil.which("php"), reason="needs php: apt-get install php-cli")
def test_a_function_that_php_has_itself_is_not_called_wrong(problems, quick):
    taken = replace(problems["php"], entry="strlen", head="<?php\nfunction strlen($text) {\n")
    assert quick.judge(taken, taken.head + "    return 3;\n}").outcome == "unjudged"


def test_a_chat_answer_in_php_is_a_whole_program_with_or_without_the_opening_tag(problems):
    problem = problems["php"]
    for opening in ("", "<?php\n"):
        made = program(problem, f"```php\n{opening}function twice($n, $m) {{ return $n; }}\n```", "chat")
        assert made.count("<?php") == made.count("function twice") == 1 and made.startswith("<?php")
