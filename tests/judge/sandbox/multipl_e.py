"""A small problem in MultiPL-E's form in JavaScript, TypeScript, PHP, Shell and C#, and programs of each outcome."""

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
    "typescript": {
        "name": "HumanEval_0_twice",
        "language": "ts",
        "prompt": "//Twice each number.\nfunction twice(numbers: number[], more?: any): number[] {\n",
        "tests": f"declare var require: any;\n{JAVASCRIPT_TESTS}",
        "stop_tokens": ["\nfunction ", "\n/*", "\n//", "\nclass"],
        "doctests": "transform",
    },
    "csharp": {
        "name": "HumanEval_0_twice",
        "language": "cs",
        "prompt": "using System.Collections.Generic;\nusing System.Diagnostics;\nusing System.Linq;\nclass Problem {\n"
        "    // Twice each number.\n    public static List<long> Twice(List<long> numbers) {\n",
        "tests": """    }
    public static void Main(string[] args) {
    Debug.Assert(Twice((new List<long>(new long[]{(long)1L, (long)2L}))).SequenceEqual(new List<long>{2L, 4L}));
    Debug.Assert(Twice((new List<long>())).Equals(new List<long>()) == false);
    }

}
""",
        "stop_tokens": ["\n    }\n"],
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
    ("typescript", "  return numbers.map(n => 2 * n);\n}"): "passed",
    (
        "typescript",
        "  const kept: Map<number, number[]> = new Map(); return numbers.map((n) => helper(n));\n}\n"
        "const helper = (x: number): number => x + x; interface Unused { a: string }\nenum Some { A, B = 5 }",
    ): "passed",
    (
        "typescript",
        "  const util = require('node:util'); return util.inspect(2) === '2' ? numbers : numbers;\n}",
    ): "wrong",
    ("typescript", "  return numbers.map(n => `${n}`);\n}"): "compile error",  # a wrong type, as with tsc
    ("typescript", "  return (;\n}"): "compile error",
    ("typescript", "  throw new Error('planted');\n}"): "exception",
    ("csharp", "        return numbers.Select(n => 2 * n).ToList();"): "passed",
    (
        "csharp",
        "        System.Console.WriteLine(5); numbers.Add(1); return numbers.Take(numbers.Count - 1).Select(Helper)"
        ".ToList();\n    }\n    static long Helper(long n) {\n        return n + n;",
    ): "passed",
    ("csharp", "        return numbers;"): "wrong",
    ("csharp", "        return null;"): "wrong",
    ("csharp", "        return numbers.Select(n => 2 * n);"): "compile error",
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
