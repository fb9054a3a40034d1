"""Read the problems of a benchmark file: HumanEval, HumanEval-X, MBPP, MultiPL-E or LiveCodeBench, as published.

HumanEval+ and MBPP+ as data sets have the fields of HumanEval and MBPP, and a benchmark of your own those of any.

    problems = read(Path("data/benchmarks/HumanEval.jsonl.gz"))

The fields of the first record tell the format. A file with a field that its format does not know is refused, as that
field may hold tests.

A problem's cases of LiveCodeBench are standard input and output, or arguments and result of a method of class Solution
as one JSON value per line. The private ones are base64 of zlib of a pickled text; anything but a text is refused.
Prompts and the preamble of programs are those of lcb_runner (prompts/code_generation.py, evaluation/testing_util.py).
"""

import base64
import binascii
import gzip
import io
import json
import pickle
import re
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.settings.suites import Benchmark
from scripts.judge.problem import BEGINS, HUMANEVAL_STOPS, MBPP_STOPS, Problem, entry_of, language_of

# Bytes of an unpacked file. LiveCodeBench's have 100 MB to more than 1 GB, others 20 MB at most.
LARGEST_FILE = 2 << 30


def lines(path: Path) -> Iterator[str]:
    """The lines of a file, gzipped or not, one after the other. Raises UserError: as `unpacked`."""
    read = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(LARGEST_FILE + 1 - read):
                read = read + len(line)
                if read > LARGEST_FILE:
                    raise UserError(too_large(path))
                yield line.decode()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError(f"{path}: no such file") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: truncated or damaged: {error}; download it again") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text: {error}") from error


def too_large(path: Path) -> str:
    return f"{path}: more than {LARGEST_FILE >> 20} MB unpacked, which no benchmark has; give another file"


def unpacked(path: Path) -> str:
    """The text of a file, gzipped or not. Raises UserError: it is missing, damaged, too large or not text."""
    return "".join(lines(path))


def records(path: Path) -> Iterator[tuple[str, object]]:
    """(place for error lines, record) of each record of a file. Raises UserError: the file is not JSON."""
    begun = False
    for number, line in enumerate(lines(path), 1):
        if not line.strip():
            continue
        if not begun and line.lstrip().startswith("["):
            try:
                numbered = enumerate(json.loads(unpacked(path)), 1)
            except (json.JSONDecodeError, RecursionError) as error:
                raise UserError(f"{path}: not JSON: {error}") from error
            yield from ((f"{path}: record {place}", record) for place, record in numbered)
            return
        begun = True
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise UserError(f"{path}: line {number}: not JSON: {error}") from error
        yield f"{path}: line {number}", record


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
    """The private cases of a record. Raises ValueError: they are neither JSON nor base64 of a compressed pickle of
    JSON."""
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
    if not all(isinstance(text, str) for text in chain.from_iterable(pairs)):
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


def humaneval(record: dict) -> Problem:
    prompt, entry = record["prompt"], record["entry_point"]
    for name in ("task_id", "prompt", "test"):
        if not record[name].strip():
            raise ValueError(f"{name}: empty")
    tests = f"{record['test']}\ncheck({entry})\n"
    canonical = record.get("canonical_solution") or None
    return Problem(record["task_id"], "python", prompt, prompt, tests, entry, HUMANEVAL_STOPS, canonical)


def humaneval_x(record: dict) -> Problem:
    language = language_of(record["task_id"].split("/")[0])
    prompt = record["prompt"]
    stops = HUMANEVAL_STOPS if language == "python" else ()
    entry = entry_of(record["declaration"], language)
    canonical = record.get("canonical_solution")
    return Problem(record["task_id"], language, prompt, prompt, record["test"], entry, stops, canonical)


def mbpp(record: dict) -> Problem:
    text = record.get("text") or record["prompt"]
    prompt = f'"""\n{text}\n{record["test_list"][0]}\n"""\n'
    # MBPP+ has the tests that EvalPlus added in `test`, beside the original ones
    setup = [record.get("test_setup_code", ""), *record.get("test_imports", [])]
    tests = "\n".join([*setup, *record["test_list"], *([record["test"]] if "test" in record else [])])
    # what the tests call may have the name of a builtin, as `sum` in problem 126
    used = set(re.findall(r"\w+", "\n".join(record["test_list"])))
    defined = tuple(name for name in re.findall(BEGINS["python"], record["code"], re.M) if name in used)
    canonical = record["code"]
    return Problem(f"MBPP/{record['task_id']}", "python", prompt, "", tests, "", MBPP_STOPS, canonical, defined=defined)


def multipl_e(record: dict) -> Problem:
    language, prompt = language_of(record["language"]), record["prompt"]
    entry = entry_of(prompt, language)
    if record.get("test", record["tests"]) != record["tests"]:  # DeepSeek-Coder's copies have them twice
        raise ValueError("`test` differs from `tests`")
    tests = record["tests"] + (f"\ncheck({entry})\n" if language == "python" else "")
    unjudged = ""
    if language == "cpp":
        *_, start = re.finditer(BEGINS[language], prompt, re.M)
        unions = set(re.findall(r"^union (\w+)", prompt, re.M))
        if unions & set(re.findall(r"\w+", prompt[start.start() :])):
            unjudged = "its function takes or gives a union, and nothing tells which of its values that holds"
    return Problem(
        record["name"], language, prompt, prompt, tests, entry, tuple(record["stop_tokens"]), unjudged=unjudged
    )


@dataclass(frozen=True)
class Format:
    """A format of benchmark files.

    Attributes:
        fields: those that identify it.
        read: makes a problem from a record.
        more_fields: of published files, space-separated; those after `-` hold nothing that a judge needs.
    """

    fields: tuple[str, ...]
    read: Callable[[dict], Problem]
    more_fields: str

    def unknown(self, record: dict) -> list[str]:
        return sorted(set(record) - set(self.fields) - set(self.more_fields.split()))


FORMATS = {
    "HumanEval": Format(("task_id", "prompt", "entry_point", "test"), humaneval, "canonical_solution"),
    "HumanEval-X": Format(
        ("task_id", "prompt", "declaration", "test"),
        humaneval_x,
        "canonical_solution import test_setup - example_test text docstring",
    ),
    "MBPP": Format(
        ("task_id", "test_list", "code"),
        mbpp,
        "text prompt test_setup_code test_imports test - challenge_test_list source_file",
    ),
    "LiveCodeBench": Format(
        ("question_id", "question_content", "starter_code", "public_test_cases", "private_test_cases", "metadata"),
        livecodebench,
        "- question_title platform contest_id contest_date difficulty",
    ),
    "MultiPL-E": Format(
        ("name", "language", "prompt", "tests", "stop_tokens"),
        multipl_e,
        "test - task_id doctests original prompt_terminology",
    ),
}


def check_text(problem: Problem) -> None:
    """Check that all fields are text."""
    for name, value in vars(problem).items():
        if name == "canonical" and value is None:
            continue
        for text in value if isinstance(value, tuple) else [value]:
            if not isinstance(text, str):
                raise TypeError(f"its {name} must be text, not {type(text).__name__}")


def problems_of(benchmark: Benchmark) -> list[Problem]:
    """The problems of a benchmark that an experiment scores. Raises UserError: its file cannot be read, or it names a
    problem that the file does not hold."""
    problems = {problem.id: problem for problem in read(Path(benchmark.path), benchmark.ignore)}
    for key in ("ids", "exclude", "few_shot"):
        unknown = [name for name in getattr(benchmark, key) or () if name not in problems]
        if unknown:
            raise UserError(
                f"evaluation.code.benchmarks: {key}: {benchmark.path} has no problem {unknown[0]}; its first is"
                f" {next(iter(problems))}"
            )
    unsolved = [name for name in benchmark.few_shot if problems[name].canonical is None]
    if unsolved:
        raise UserError(
            f"evaluation.code.benchmarks: few_shot: {benchmark.path} has no solution of {unsolved[0]}; name other"
            " problems"
        )
    left_out = {*benchmark.exclude, *benchmark.few_shot}
    chosen = [name for name in benchmark.ids or problems if name not in left_out][: benchmark.limit]
    if not chosen:
        raise UserError(f"evaluation.code.benchmarks: {benchmark.path}: `exclude` and `few_shot` leave no problem")
    examples = tuple((problems[name].prompt, problems[name].canonical) for name in benchmark.few_shot)
    return [replace(problems[name], examples=examples) for name in chosen]


def format_of(record: object, place: str) -> str:
    """The name of the format of a record: of those whose fields it has, the one that knows the most of the others.
    Raises UserError: there is none."""
    matching = [
        name
        for name, known_format in FORMATS.items()
        if isinstance(record, dict) and set(known_format.fields) <= set(record)
    ]
    if not matching:
        known = "; ".join(f"{name} ({', '.join(known_format.fields)})" for name, known_format in FORMATS.items())
        raise UserError(f"{place}: no benchmark format has these fields; known: {known}")
    return min(matching, key=lambda name: len(FORMATS[name].unknown(record)))


def read(path: Path, ignored: Collection[str] = ()) -> list[Problem]:
    """The problems of a file, in its order.

    Args:
        ignored: fields that its format does not know, and that hold nothing needed.

    Raises:
        UserError: the file is unreadable or empty, a record is in none of the formats, in another than the first or has
            fields unknown to it, or an id occurs twice.
    """
    problems, chosen, name = {}, None, ""
    for place, record in records(path):
        if chosen is None:
            name = format_of(record, place)
            chosen = FORMATS[name]
        if not isinstance(record, dict) or not set(chosen.fields) <= set(record):
            raise UserError(f"{place}: not in the format of the first record, {name}")
        unknown = [field for field in chosen.unknown(record) if field not in ignored]
        if unknown:
            raise UserError(
                f"{place}: {name}'s format has no {', '.join(unknown)}, and a field that is not read may hold tests;"
                " remove it, or name it in the benchmark's `ignore` if it holds none"
            )
        try:
            problem = chosen.read(record)
            check_text(problem)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise UserError(f"{place}: not a problem in {name}'s format: {error}") from error
        if problem.id in problems:
            raise UserError(f"{place}: id {problem.id} occurs twice")
        problems[problem.id] = problem
    if not problems:
        raise UserError(f"{path}: holds no problem")
    return list(problems.values())
