"""Read LiveCodeBench: files test.jsonl, test2.jsonl, ... of code_generation and code_generation_lite.

    problem = livecodebench(record)

A problem's cases are standard input and output, or arguments and result of a method of class Solution as one JSON value
per line. The private ones are base64 of zlib of a pickled text; anything but a text is refused. Prompts and the
preamble of programs are those of lcb_runner (prompts/code_generation.py, evaluation/testing_util.py).
"""

import base64
import binascii
import io
import json
import pickle
import zlib

from scripts.judge.problem import Problem

MODULES = ["string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"]
MODULES += ["itertools", "functools", "operator", "io", "sys", "json"]
PREAMBLE = "".join(f"from {name} import *\n" for name in [*MODULES, "builtins", "typing"])
PREAMBLE += "".join(f"import {name}\n" for name in MODULES) + "sys.setrecursionlimit(50000)\n"
# Bytes of the unpacked cases of one problem.
LARGEST = 512 << 20

STARTER = (
    "You will use the following starter code to write the solution to the problem and enclose your code within"
    " delimiters."
)
STDIO = (
    "Read the inputs from stdin solve the problem and write the answer to stdout (do not directly test on the sample"
    " inputs). Enclose your code within delimiters as follows. Ensure that when the python program runs, it reads the"
    " inputs, runs the algorithm and writes output to STDOUT."
)
# calls the method; a tuple is accepted where a list is expected
CALLS = r"""
import json
for given, expected in CASES:
    result = getattr(Solution(), METHOD)(*[json.loads(line) for line in given.split("\n")])
    result = list(result) if isinstance(result, tuple) else result
    assert result == json.loads(expected), f"{given[:200]}: {str(result)[:200]}, {expected[:200]} is right"
"""


class TextsOnly(pickle.Unpickler):
    """Unpickles builtin values; a pickle that names a class or function is refused."""

    def find_class(self, module: str, name: str) -> object:
        raise ValueError(f"private_test_cases: a pickle that names {module}.{name}, not a text")


def private(text: str) -> list[dict]:
    """The private cases of a record.

    Raises:
        ValueError: they are neither JSON nor base64 of a compressed pickle of JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        pass
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(base64.b64decode(text), LARGEST)
        if unpacking.unconsumed_tail:
            raise ValueError(f"private_test_cases: more than {LARGEST >> 20} MB")
        return json.loads(TextsOnly(io.BytesIO(data)).load())
    except (binascii.Error, zlib.error, EOFError, pickle.UnpicklingError, TypeError, IndexError) as error:
        raise ValueError(f"private_test_cases: neither JSON nor a packed text: {error}") from error


def livecodebench(record: dict) -> Problem:
    cases = [*json.loads(record["public_test_cases"]), *private(record["private_test_cases"])]
    test_types = {case["testtype"] for case in cases}
    if test_types not in ({"stdin"}, {"functional"}):
        raise ValueError(
            f"testtype: must be stdin or functional in all cases, not {', '.join(sorted(test_types)) or 'none'}"
        )
    pairs = [[case["input"], case["output"]] for case in cases]
    if not all(isinstance(text, str) for pair in pairs for text in pair):
        raise ValueError("input and output of a case must be text")
    question, starter = record["question_content"], record["starter_code"]
    request = f"### Question:\n{question}\n\n### Format: {STARTER if starter else STDIO}\n"
    request += f"```python\n{starter or '# YOUR CODE HERE'}\n```\n\n"
    request += "### Answer: (use the provided format with backticks)\n\n"
    text = question.replace('"""', '"')
    if test_types == {"stdin"}:
        judge, tests, defined = "stdio", json.dumps(pairs), ()
    else:
        method = json.loads(record["metadata"])["func_name"]
        for arguments, expected in pairs:
            for line in (*arguments.split("\n"), expected):
                json.loads(line)
        judge, tests, defined = "calls", f"METHOD = {method!r}\nCASES = {pairs!r}\n{CALLS}", ("Solution",)
    return Problem(
        id=record["question_id"],
        language="python",
        prompt=f'"""\n{text}\n"""\n{starter}',
        head=starter,
        tests=tests,
        entry="",
        stops=(),
        defined=defined,
        judge=judge,
        preamble=PREAMBLE,
        request=request,
    )
