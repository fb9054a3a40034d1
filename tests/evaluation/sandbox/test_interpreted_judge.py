"""JavaScript, PHP and Shell in MultiPL-E's form, from record to verdict: right, wrong, cheating, harmful."""

import shutil
import subprocess
from dataclasses import replace

import pytest

from scripts.evaluation.benchmarks.formats import read
from scripts.evaluation.benchmarks.prompts import program, prompt_of
from scripts.evaluation.sandbox.interpreted_judge import NEEDED
from scripts.evaluation.sandbox.judge import Judge
from scripts.evaluation.sandbox.program import Limits
from tests.evaluation.benchmarks.test_formats import written

pytestmark = pytest.mark.slow  # starts Node.js, PHP and bash for each program

RECORDS = {
    "javascript": {
        "name": "HumanEval_0_twice",
        "language": "js",
        "prompt": "//Twice each number.\nfunction twice(numbers, more){\n",
        "tests": """const assert = require('node:assert');


function test() {
  let candidate = twice;
  assert.deepEqual(candidate([1, 2.5]),[2, 5]);
  assert.deepEqual(candidate([-3], {"a": [1]}),[-6]);
  assert.deepEqual(candidate([]),[]);
}

test();""",
        "stop_tokens": ["\nfunction ", "\n/*", "\n//", "\nconsole.log"],
        "doctests": "transform",
    },
    "php": {
        "name": "HumanEval_0_twice",
        "language": "php",
        "prompt": "<?php\n// Twice each number.\nfunction twice($numbers, $more) {\n",
        "tests": """function candidate(...$args) {
    return twice(...$args);
}

function test(): void {
    if (candidate(array(1, 2.5), null) !== array(2, 5.0)) { throw new Exception("Test failed!"); }
    if (candidate(array("a" => -3), array(true)) !== array("a" => -6)) { throw new Exception("Test failed!"); }
    if (candidate(array(), "é\\n") !== array()) { throw new Exception("Test failed!"); }
}

test();""",
        "stop_tokens": ["\nfunction", "\n?>", "\n//", "\n#"],
        "doctests": "transform",
    },
    "shell": {
        "name": "HumanEval_0_twice",
        "language": "sh",
        "prompt": "#!/bin/bash\n# Twice each number.\n#\n# $1 is a space-separated list\ntwice() {\n",
        "tests": """}

candidate() {
    twice "$@"
}

set -e
run_test() {
    [[ $(candidate "1 2") = "2 4" ]]
    [[ $(candidate "-3") = "-6" ]]
    [[ $(candidate "") = "" ]]
}

run_test""",
        "stop_tokens": ["\n}"],
        "doctests": "transform",
    },
}

# (language, what a completion writes): what becomes of it
PROGRAMS = {
    ("javascript", "  return numbers.map(n => 2 * n);\n}"): "passed",
    ("javascript", "  return helper(numbers);\n}\nconst helper = (x) => x.map(n => n + n);"): "passed",
    (
        "javascript",
        "  console.log('noise'); numbers.push(1); return numbers.slice(0, -1).map(n => 2 * n);\n}",
    ): "passed",
    ("javascript", "  return numbers;\n}"): "wrong",
    ("javascript", "  return undefined;\n}"): "wrong",
    ("javascript", "  return numbers.map(n => NaN);\n}"): "wrong",
    ("javascript", "  throw new Error('planted');\n}"): "exception",
    ("javascript", "  return (;\n}"): "compile error",
    ("javascript", "  while (true);\n}"): "timeout",
    ("javascript", "  let all = []; while (true) all.push(new Array(1000).fill(Math.random()));\n}"): "memory",
    ("javascript", "  process.exit(0);\n}"): "exception",
    ("javascript", "  return numbers;\n}\nprocess.exit(0);"): "exception",
    ("javascript", "  return numbers;\n}\nprocess.reallyExit(0);"): "exception",
    ("javascript", "  return numbers;\n}\nrequire('assert').deepEqual = () => {};"): "wrong",
    ("javascript", "  return numbers;\n}\nArray.prototype.map = function () { return [[2, 5]]; };"): "exception",
    ("javascript", "  return numbers;\n}\nJSON.stringify = () => '[[2, 5], [[]]]';"): "wrong",
    ("javascript", "  return new Proxy(numbers, { get: () => true });\n}"): "exception",
    ("javascript", "  return new (class Equal { valueOf() { return true; } })();\n}"): "unjudged",
    (
        "javascript",
        "  return numbers;\n}\nfor (let f = 0; f < 64; f++) try { require('fs').closeSync(f); } catch {}",
    ): "exception",
    ("javascript", '  return JSON.parse(\'{"__proto__": {"length": 2}}\');\n}'): "wrong",
    ("php", "    return array_map(fn ($n) => 2 * $n, $numbers);\n}"): "passed",
    (
        "php",
        "    return array_map('helper', $numbers);\n}\nconst X = 2;\nif (1) { function helper($n) { return $n * X; } }",
    ): ("passed"),
    (
        "php",
        "    echo 'noise'; $numbers = array_map(fn ($n) => $n + $n, $numbers); return $numbers;\n}\necho 1;",
    ): "passed",
    ("php", "    return $numbers;\n}"): "wrong",
    ("php", "    return null;\n}"): "wrong",
    ("php", "    return array_map(fn ($n) => 2.0 * $n, $numbers);\n}"): "wrong",  # 2.0 is not 2, as in one process
    ("php", "    return array_map(fn ($n) => NAN, $numbers);\n}"): "wrong",
    ("php", "    throw new Exception('planted');\n}"): "exception",
    ("php", "    return (;\n}"): "compile error",
    ("php", "    while (true);\n}"): "timeout",
    ("php", "    for (;;) $numbers[] = str_repeat('x', 1 << 20);\n}"): "memory",
    ("php", "    return twice($numbers, $more);\n}"): "memory",
    ("php", "    return new ArrayObject($numbers);\n}"): "unjudged",
    ("php", "    exit(0);\n}"): "exception",
    ("php", "    return $numbers;\n}\nexit(0);"): "exception",
    (
        "php",
        "    return $numbers;\n}\nregister_shutdown_function(fn () => exit(0)); throw new Exception();",
    ): "exception",
    ("php", "    return $numbers;\n}\nset_exception_handler(fn () => exit(0));"): "wrong",
    ("php", "    return $numbers;\n}\nnamespace\\test();\nif (0) {\n}"): "exception",
    ("php", "    posix_kill(posix_getppid(), 9); return $numbers;\n}"): "exception",
    (
        "php",
        '    return $numbers;\n}\nforeach (range(3, 40) as $f) @fwrite(fopen("php://fd/$f", \'w\'), "[]\\n");',
    ): "exception",
    (
        "php",
        "    return $numbers;\n}\nforeach (range(3, 40) as $f)"
        ' @fwrite(fopen("php://fd/$f", \'w\'), \'{"result": {"l": 5}}\' . "\\n");',
    ): "exception",
    ("shell", '    for n in $1; do out="$out $((2 * n))"; done; echo $out'): "passed",
    ("shell", "    echo $1"): "wrong",
    ("shell", "    exit 0"): "wrong",
    ("shell", "    return 0"): "wrong",
    ("shell", "    kill -9 $PPID; exit 0"): "exception",
    ("shell", "    while true; do :; done"): "timeout",
    ("shell", "    if then"): "compile error",
    ("shell", "    echo 0\n}\ncandidate() { echo '2 4'; }\nfunction [[ { true; }\ng() {\n:"): "wrong",
    ("shell", "    echo 0\n}\nset() { exit 0; }; trap 'exit 0' EXIT\ng() {\n:"): "wrong",
}


@pytest.fixture(scope="module")
def quick(sandbox):
    return Judge(sandbox, Limits(4, 512 << 20))


@pytest.fixture
def problems(tmp_path):
    return {
        language: read(written(tmp_path / f"{language}.jsonl", [record]))[0] for language, record in RECORDS.items()
    }


@pytest.mark.parametrize(("language", "text"), PROGRAMS)
def test_programs(problems, quick, unharmed, language, text):
    if not shutil.which(NEEDED[language][0]):
        pytest.skip(f"needs {NEEDED[language][0]}: apt-get install {NEEDED[language][1]}")
    problem = problems[language]
    assert problem.language == language and problem.entry == "twice"
    tail = "\n}" if language == "shell" else ""
    verdict = quick.judge(problem, problem.head + text + tail)
    assert verdict.outcome == PROGRAMS[language, text], verdict


def test_completions_and_chat_answers_become_whole_programs(problems):
    script, shell = problems["javascript"], problems["shell"]
    assert program(shell, "    echo 1\n}\nmore", "completion") == f"{shell.head}    echo 1\n}}"
    assert program(script, "  return 1;\n}\nfunction g() {}", "completion") == f"{script.head}  return 1;\n}}"
    answer = "```js\nfunction twice(n) { return n; }\n```"
    assert "function twice(n) { return n; }" in program(script, answer, "chat")
    assert program(script, answer, "chat").count("function twice") == 1
    assert "JavaScript" in prompt_of(script, "chat")[0]["content"] and "Bash" in prompt_of(shell, "chat")[0]["content"]


def in_one_process(problem, code):
    """The exit code of the program with its tests behind it, as a plain loop runs them."""
    php = ["php", "-n", "-d", "display_errors=stderr"]
    text = f"{code}\n{problem.tests}"
    return subprocess.run([*php, "-r", text.removeprefix("<?php")], capture_output=True, check=False).returncode


@pytest.mark.skipif(not shutil.which("php"), reason="needs php: apt-get install php-cli")
@pytest.mark.parametrize(
    "attack",
    [
        "    exit(0);\n}",
        "    return $numbers;\n}\nexit(0);",
        "    return $numbers;\n}\nregister_shutdown_function(fn () => exit(0));",
        "    register_shutdown_function(fn () => exit(0)); throw new Error();\n}",
        "    pcntl_exec('/bin/true');\n}",
        "    return $numbers;\n}\nclass D { function __destruct() { exit(0); } }\n$d = new D;",
        "    $GLOBALS['d'] = new class { function __destruct() { exit(0); } }; exit(1);\n}",
    ],
)
def test_what_passes_a_plain_loop_in_php_does_not_pass_here(problems, quick, unharmed, attack):
    problem = problems["php"]
    assert in_one_process(problem, problem.head + "    return $numbers;\n}") != 0
    assert in_one_process(problem, problem.head + attack) == 0
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
