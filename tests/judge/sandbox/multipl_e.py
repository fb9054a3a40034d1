"""A small problem in MultiPL-E's form in JavaScript, and programs of each outcome."""

JAVASCRIPT_TESTS = """const assert = require('node:assert');


function test() {
  let candidate = twice;
  assert.deepEqual(candidate([1, 2.5]),[2, 5]);
  assert.deepEqual(candidate([-3], {"a": [1]}),[-6]);
  assert.deepEqual(candidate([]),[]);
}

test();"""

RECORDS = {
    "javascript": {
        "name": "HumanEval_0_twice",
        "language": "js",
        "prompt": "//Twice each number.\nfunction twice(numbers, more){\n",
        "tests": JAVASCRIPT_TESTS,
        "stop_tokens": ["\nfunction ", "\n/*", "\n//", "\nconsole.log"],
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
}
