"""JavaScript and Shell in MultiPL-E's form, from record to verdict: right, wrong, cheating and harmful programs."""

import shutil

import pytest

from scripts.evaluation.benchmarks.formats import read
from scripts.evaluation.benchmarks.prompts import program, prompt_of
from scripts.evaluation.sandbox.interpreted_judge import NEEDED
from scripts.evaluation.sandbox.judge import Judge
from scripts.evaluation.sandbox.program import Limits
from tests.evaluation.benchmarks.test_formats import written

pytestmark = pytest.mark.slow  # starts Node.js and bash for each program

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
