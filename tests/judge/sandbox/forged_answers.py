"""Programs that solve nothing and attack what separates them from the tests: the channel, its readers and its runners.

Of each: the language, what it does, and the program. The tests of a Python program are its own, as some attacks lie in
wait for a way in which tests may be written.
"""

from tests.judge.sandbox.attacks import Attack

CHANNEL = """
import gc
channel = [one for one in gc.get_objects() if type(one).__name__ == 'Channel'][0]
real = channel.send
def answer(text):
    channel.send = lambda reply: real(text if reply.startswith("['value', 1") else reply)
def f(x): return 1
"""
EACH = "for given, right in (([3, 1, 2], [1, 2, 3]), ([5, 4], [4, 5])):\n    assert f(given) == right\n"
IN_PLACE = "for given in ([3, 1, 2], [5, 4]):\n    assert f(given) == sorted(given)\n"
MAPPED = "for found, right in zip(map(f, [[2, 1]]), [[1, 2]]):\n    assert found == right\n"
CLASS = "import unittest\nclass TestCases(unittest.TestCase):\n    def test(self):\n        "
RUN = "\nassert unittest.TextTestRunner().run(unittest.TestLoader().loadTestsFromTestCase(TestCases)).wasSuccessful()\n"

# name → (tests, program)
PYTHON = {
    "an emptied argument in place of no result": (
        IN_PLACE,
        f"{CHANNEL}answer(\"['value', None, 0, ([[]], dict([]))]\")",
    ),
    "an emptied argument and a result that equals it": (IN_PLACE, "def f(x):\n    x.clear()\n    return []"),
    "the end of a loop over map": (MAPPED, "def f(x): raise StopIteration"),
    "the end of a loop over map, forged": (MAPPED, f"{CHANNEL}answer(\"['error', 'StopIteration', '']\")"),
    "the end of the tests' process": (EACH, f"{CHANNEL}answer(\"['error', 'SystemExit', '0']\")"),
    "an interrupt of unittest": (
        f"{CLASS}self.assertEqual(f([2, 1]), [1, 2]){RUN}",
        f"{CHANNEL}answer(\"['error', 'KeyboardInterrupt', '']\")",
    ),
    "a skipped test": (
        f"{CLASS}self.assertEqual(f([2, 1]), [1, 2]){RUN}",
        "import unittest\ndef f(x): raise unittest.SkipTest('not today')",
    ),
    "an object that hides its operators": (EACH, f"{CHANNEL}answer(\"['value', kept(0, 'list', ()), None, None]\")"),
    "an object whose operators are an object": (
        EACH,
        f"{CHANNEL}answer(\"['value', kept(0, 'list', kept(1, 'x', ())), None, None]\")",
    ),
    "a tuple whose length is a field": (
        "assert len(f(1)) == 3 and f(1).count(7) == 2\n",
        f"{CHANNEL}answer(\"['value', named('T', ['count', 'index'], [2, 3]), None, None]\")",
    ),
    "a number of a type that is none": (EACH, f"{CHANNEL}answer(\"['value', number('|V8', 1), None, None]\")"),
    "the argument itself as the result": (EACH, f"{CHANNEL}answer(\"['value', 1, 0, None]\")"),
    "another function of the tests": (
        "right = [1, 2, 3]\nassert f(lambda: right) == right\nassert f(sorted)([2, 1]) == [1, 2]\n",
        f"{CHANNEL}answer(\"['value', test_function(-1), None, None]\")",
    ),
    "code in the name of a function": (
        EACH,
        f"{CHANNEL}answer(\"['value', test_function(0, [('f(): __import__(\\\\'os\\\\')._exit(0)', '', None)]), 0,\""
        '" 0]")',
    ),
    "an equality in the standard library's names": (
        EACH,
        "import collections\nclass deque(list):\n    __eq__ = lambda *a: True\n"
        "collections.deque = deque\ndeque.__module__ = 'collections'\ndef f(x): return deque()",
    ),
    "a daemon that outlives the program": (
        EACH,
        "import os\nif not os.fork():\n    os.setsid()\n    while True:\n        for d in range(3, 9):\n"
        "            try: os.write(d, b\"['value', [1, 2, 3], None, None]\\n\")\n"
        "            except OSError: os._exit(0)\n"
        "os._exit(0)",
    ),
    "links in the work folder": (
        EACH,
        "import os\nfor name in ('tests.py', 'prompt.py', 'guest.pyc'):\n    try:\n        os.unlink(f'/tmp/{name}')\n"
        "    except OSError: pass\n    try: os.symlink('/dev/null', f'/tmp/{name}')\n    except OSError: pass\n"
        "def f(x): return open('/tmp/tests.py').read() or x",
    ),
    "a library that is loaded first": (
        EACH,
        "import os\nopen('/tmp/x.so', 'w').write('x')\n"
        "os.environ |= {'LD_PRELOAD': '/tmp/x.so', 'PYTHONPATH': '/tmp'}\n"
        "open('/tmp/sitecustomize.py', 'w').write('import os; os._exit(0)')\n"
        "os.execv('/usr/bin/env', ['env', 'true'])",
    ),
}

# what a program prints that reads a number and should print its double
PRINTED = {
    "the first lines right": "print(2 * int(input()))\nprint(' ' * 500000)\nprint('more')",
    "right, then a failure": "print(2 * int(input()), flush=True)\nimport os\nos.kill(os.getpid(), 11)",
    "numbers that equal all": "print('nan')",
    "the case before": "import os\nopen('/tmp/seen', 'a').write(input())\n"
    "print(2 if os.path.getsize('/tmp/seen') < 2 else 10)",
    "its own input": "import os\nos.write(0, b'2')\nprint(2)",
    "endless": "while True: print('2' * 100000)",
}

FRAMES = """
    for (int d = 3; d < 32; d++) for (unsigned size : {0xffffffffu, 0u, 12u, 4u}) {
        if (write(d, &size, 4)) {} unsigned zeros[3] = {}; if (write(d, zeros, 12)) {}
    }"""
COMPILED = [
    Attack(
        "cpp",
        "frames on every descriptor",
        "exit",
        "\n#include <unistd.h>\nstatic int early = [] {" + FRAMES + " return 0; }();",
    ),
    Attack(
        "cpp",
        "its own system calls",
        "exit",
        '\nextern "C" long write(int, const void*, unsigned long n) { return n; }\n'
        'extern "C" void _exit(int) { for (;;); }',
    ),
    Attack(
        "cpp",
        "equality and hashes",
        "exit",
        "\nnamespace std { bool operator==(const vector<int>&, const vector<long>&) { return true; } }\n"
        "bool operator==(const vector<int>&, const vector<int>&) { return true; }",
    ),
]
