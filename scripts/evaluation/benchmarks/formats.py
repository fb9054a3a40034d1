"""Read the problems of a benchmark file: HumanEval, HumanEval-X, MBPP, MultiPL-E or LiveCodeBench, as published.

HumanEval+ and MBPP+ as data sets have the fields of HumanEval and MBPP, and a benchmark of your own those of any.

    problems = read(Path("data/benchmarks/HumanEval.jsonl.gz"))

The fields of the first record tell the format. A file with a field that its format does not know is refused, as that
field may hold tests.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from scripts.common.errors import UserError
from scripts.evaluation.benchmarks.files import records
from scripts.evaluation.benchmarks.livecodebench import livecodebench
from scripts.experiment.settings.benchmark import Benchmark
from scripts.judge.problem import BEGINS, HUMANEVAL_STOPS, MBPP_STOPS, Problem, entry_of, language_of


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
    if record.get("test", record["tests"]) != record["tests"]:  # DeepSeek-Coder's copies have them twice
        raise ValueError("`test` differs from `tests`")
    tests = record["tests"] + (f"\ncheck({entry})\n" if language == "python" else "")
    unjudged = ""
    if language == "cpp":
        *_, start = re.finditer(BEGINS[language], prompt, re.M)
        unions = set(re.findall(r"^union (\w+)", prompt, re.M))
        if unions & set(re.findall(r"\w+", prompt[start.start() :])):
            unjudged = "its function takes or gives a union, and nothing tells which of its values that holds"
    return Problem(record["name"], language, prompt, prompt, tests, entry, stops, None, imports, unjudged=unjudged)


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
    """Check that all fields are text.

    Raises:
        TypeError: one is not.
    """
    for name, value in vars(problem).items():
        optional = name == "canonical" and value is None
        for text in value if isinstance(value, tuple) else [] if optional else [value]:
            if not isinstance(text, str):
                raise TypeError(f"its {name} must be text, not {type(text).__name__}")


def problems_of(benchmark: Benchmark) -> list[Problem]:
    """The problems of a benchmark that an experiment scores.

    Raises:
        UserError: its file cannot be read, or it names a problem that the file does not hold.
    """
    problems = {problem.id: problem for problem in read(Path(benchmark.path), benchmark.ignore)}
    for key in ("ids", "exclude", "few_shot"):
        if unknown := [name for name in getattr(benchmark, key) or () if name not in problems]:
            raise UserError(
                f"evaluation.code.benchmarks: {key}: {benchmark.path} has no problem {unknown[0]}; its first is"
                f" {next(iter(problems))}"
            )
    if unsolved := [name for name in benchmark.few_shot if problems[name].canonical is None]:
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

    Raises:
        UserError: there is none.
    """
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
        if unknown := [field for field in chosen.unknown(record) if field not in ignored]:
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
