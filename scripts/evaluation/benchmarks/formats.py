"""Read the problems of a benchmark file: HumanEval, HumanEval-X, MBPP, MultiPL-E, HumanEval+ or MBPP+, as published.

    problems = read(Path("data/benchmarks/HumanEval.jsonl.gz"))

A file is JSON lines or one JSON list, also gzipped; the fields of its first record tell the format. A file with a field
that its format does not know is refused, as that field may hold tests.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from scripts.common.cli import UserError
from scripts.evaluation.benchmarks import evalplus
from scripts.evaluation.benchmarks.problem import (
    BEGINS,
    HUMANEVAL_STOPS,
    MBPP_STOPS,
    Problem,
    entry_of,
    language_of,
)
from scripts.experiment.settings.evaluation import Benchmark

# Bytes of an unpacked file; the largest benchmark of these formats has 20 MB.
LARGEST = 256 << 20


def humaneval(record: dict) -> Problem:
    tests = f"{record['test']}\ncheck({record['entry_point']})\n"
    prompt, entry = record["prompt"], record["entry_point"]
    return Problem(
        record["task_id"], "python", prompt, prompt, tests, entry, HUMANEVAL_STOPS, record.get("canonical_solution")
    )


def humaneval_x(record: dict) -> Problem:
    language = language_of(record["task_id"].split("/")[0])
    head = record["declaration"] if language == "rust" else record["prompt"]
    prompt = record["prompt"] + record["declaration"] if language == "rust" else record["prompt"]
    imports = record.get("test_setup", "") + record.get("import", "")
    if language == "go":  # what is imported follows from use; see programs.py
        head = head.replace(record["import"], "") if record["import"] else head
    stops = HUMANEVAL_STOPS if language == "python" else ()
    entry = entry_of(record["declaration"], language)
    canonical = record.get("canonical_solution")
    return Problem(record["task_id"], language, prompt, head, record["test"], entry, stops, canonical, imports)


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
    stops, imports = tuple(record["stop_tokens"]), prompt if language == "go" else ""
    entry = entry_of(prompt, language)
    tests = record["tests"] + (f"\ncheck({entry})\n" if language == "python" else "")
    return Problem(record["name"], language, prompt, prompt, tests, entry, stops, None, imports)


@dataclass(frozen=True)
class Format:
    """A format of benchmark files.

    Attributes:
        fields: by which it is known.
        read: makes a problem of a record.
        others: further fields of published files, space-separated; those after `-` hold nothing that a judge needs.
    """

    fields: tuple[str, ...]
    read: Callable[[dict], Problem]
    others: str

    def unknown(self, record: dict) -> list[str]:
        return sorted(set(record) - set(self.fields) - set(self.others.split()))


PLUS_FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "base_input", "plus_input", "atol")
# `test` of HumanEval+ in EvalPlus' own format holds the base inputs; `assertion` of MBPP+ the base tests.
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
    "MultiPL-E": Format(
        ("name", "language", "prompt", "tests", "stop_tokens"),
        multipl_e,
        "- doctests original prompt_terminology",
    ),
    "HumanEval+": Format((*PLUS_FIELDS, "contract"), evalplus.humaneval_plus, "- test"),
    "MBPP+": Format((*PLUS_FIELDS, "assertion"), evalplus.mbpp_plus, "- contract"),
}


def unpacked(path: Path) -> str:
    """The text of a file, gzipped or not.

    Raises:
        UserError: it is missing, damaged, too large or not text.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise UserError(f"{path}: more than {LARGEST >> 20} MB unpacked, which no benchmark has; give another file")
        return data.decode()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError(f"{path}: no such file") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: truncated or damaged: {error}; download it again") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text: {error}") from error


def records(path: Path) -> list[tuple[str, object]]:
    """(place for error lines, record) of each record of a file.

    Raises:
        UserError: the file is not JSON.
    """
    text = unpacked(path)
    if text.lstrip().startswith("["):
        try:
            return [(f"{path}: record {number}", record) for number, record in enumerate(json.loads(text), 1)]
        except (json.JSONDecodeError, RecursionError) as error:
            raise UserError(f"{path}: not JSON: {error}") from error
    parsed = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                parsed.append((f"{path}: line {number}", json.loads(line)))
            except (json.JSONDecodeError, RecursionError) as error:
                raise UserError(f"{path}: line {number}: not JSON: {error}") from error
    return parsed


def check_text(problem: Problem) -> None:
    """Check that all fields are text.

    Raises:
        TypeError: one is not.
    """
    for name, value in vars(problem).items():
        for text in value if isinstance(value, tuple) else [value or ""]:
            if not isinstance(text, str):
                raise TypeError(f"its {name} must be text, not {type(text).__name__}")


def problems_of(benchmark: Benchmark) -> list[Problem]:
    """The problems of a benchmark that an experiment scores.

    Raises:
        UserError: its file cannot be read, or it names a problem that the file does not hold.
    """
    problems = {problem.id: problem for problem in read(Path(benchmark.path), benchmark.ignore)}
    for key in ("ids", "exclude"):
        if unknown := [name for name in getattr(benchmark, key) or () if name not in problems]:
            raise UserError(
                f"evaluation.code.benchmarks: {key}: {benchmark.path} has no problem {unknown[0]}; its first is"
                f" {next(iter(problems))}"
            )
    chosen = [name for name in benchmark.ids or problems if name not in benchmark.exclude][: benchmark.limit]
    if not chosen:
        raise UserError(f"evaluation.code.benchmarks: {benchmark.path}: `exclude` leaves no problem")
    return [problems[name] for name in chosen]


def format_of(record: object, where: str) -> str:
    """The name of the format of a record: of those whose fields it has, the one that knows the most of the others.

    Raises:
        UserError: there is none.
    """
    fits = [name for name, one in FORMATS.items() if isinstance(record, dict) and set(one.fields) <= set(record)]
    if not fits:
        known = "; ".join(f"{name} ({', '.join(one.fields)})" for name, one in FORMATS.items())
        raise UserError(f"{where}: no benchmark format has these fields; known: {known}")
    return min(fits, key=lambda name: len(FORMATS[name].unknown(record)))


def read(path: Path, ignored: Collection[str] = ()) -> list[Problem]:
    """The problems of a file, in its order.

    Args:
        ignored: fields that its format does not know, and that hold nothing needed.

    Raises:
        UserError: the file is unreadable or empty, a record is in none of the formats, in another than the first or has
            fields unknown to it, or an id is there twice.
    """
    problems, chosen = {}, None
    for where, record in records(path):
        chosen = chosen or format_of(record, where)
        if not isinstance(record, dict) or not set(FORMATS[chosen].fields) <= set(record):
            raise UserError(f"{where}: not in the format of the first record, {chosen}")
        if unknown := [field for field in FORMATS[chosen].unknown(record) if field not in ignored]:
            raise UserError(
                f"{where}: {chosen}'s format has no {', '.join(unknown)}, and a field that is not read may hold tests;"
                " remove it, or name it in the benchmark's `ignore` if it holds none"
            )
        try:
            problem = FORMATS[chosen].read(record)
            check_text(problem)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise UserError(f"{where}: not a problem in {chosen}'s format: {error}") from error
        if problem.id in problems:
            raise UserError(f"{where}: id {problem.id} is there twice")
        problems[problem.id] = problem
    if not problems:
        raise UserError(f"{path}: holds no problem")
    return list(problems.values())
