"""Read the problems of a benchmark file: HumanEval, HumanEval-X, MBPP or MultiPL-E, in their published formats.

    problems = read(Path("data/benchmarks/HumanEval.jsonl.gz"))

A file is JSON lines or one JSON list, also gzipped; its first record tells the format.
"""

import gzip
import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from scripts.common.cli import UserError

LANGUAGES = ("python", "java", "go", "rust", "cpp")

# Bytes of an unpacked file; the largest benchmark of these formats has 20 MB.
LARGEST = 256 << 20

# Stop strings of the reference harnesses: of HumanEval (Chen et al. 2021, section 2.1, with the decorator,
# assertion and fence that later harnesses added) and of MBPP (bigcode-evaluation-harness).
HUMANEVAL_STOPS = ("\nclass", "\ndef", "\n#", "\n@", "\nif", "\nprint", "\nassert", "\n```")
MBPP_STOPS = ("\nclass", "\nassert", '\n"""', "\nprint", "\nif", "\n<|/", "\n```")

NAMES = {"python": "python", "py": "python", "java": "java", "go": "go", "rust": "rust", "rs": "rust", "cpp": "cpp"}

# How a function begins that may be the problem's; the group is its name.
BEGINS = {
    "python": r"^def (\w+)",
    "java": r"^[ \t]*public [^=\n(]*?(\w+)[ \t]*\(",
    "go": r"^func (\w+)[ \t]*\(",
    "rust": r"^(?:pub )?fn (\w+)",
    "cpp": r"^[A-Za-z_][\w:<>,&* \t]*?[ \t&*>](\w+)[ \t]*\(",
}


@dataclass(frozen=True)
class Problem:
    """One problem.

    Attributes:
        prompt: the text that a completion continues.
        head: the part of the program before a completion.
        tests: source of the tests, in the problem's language.
        entry: name of the problem's function; empty for MBPP, where only the tests name it.
        stops: strings that end a completion; none if counting braces ends it.
        canonical: the published solution, as a completion.
        imports: for Go, source text that names the packages that code and tests may import.
    """

    id: str
    language: str
    prompt: str
    head: str
    tests: str
    entry: str
    stops: tuple[str, ...]
    canonical: str | None = None
    imports: str = ""


def language_of(name: str) -> str:
    """This project's name for a benchmark's language.

    Raises:
        ValueError: the language is not supported.
    """
    if name.lower() not in NAMES:
        raise ValueError(f"language {name!r} is not known; known: {', '.join(LANGUAGES)}")
    return NAMES[name.lower()]


def entry_of(head: str, language: str) -> str:
    """The name of the last function that begins in `head`.

    Raises:
        ValueError: none does.
    """
    names = re.findall(BEGINS[language], head, re.M)
    opened = language == "python" or re.search(r"\{[ \t]*$", head, re.M)
    if not names or not opened or (language == "java" and not re.search(r"^(?:public )?class \w", head, re.M)):
        raise ValueError("no function begins in its prompt")
    return names[-1]


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
    setup = [record.get("test_setup_code", ""), *record.get("test_imports", [])]
    prompt = f'"""\n{text}\n{record["test_list"][0]}\n"""\n'
    tests = "\n".join([*setup, *record["test_list"]])
    return Problem(f"MBPP/{record['task_id']}", "python", prompt, "", tests, "", MBPP_STOPS, record.get("code"))


def multipl_e(record: dict) -> Problem:
    language, prompt = language_of(record["language"]), record["prompt"]
    stops, imports = tuple(record["stop_tokens"]), prompt if language == "go" else ""
    entry = entry_of(prompt, language)
    tests = record["tests"] + (f"\ncheck({entry})\n" if language == "python" else "")
    return Problem(record["name"], language, prompt, prompt, tests, entry, stops, None, imports)


# Fields that identify a format, and the function that reads its records.
FORMATS = {
    "HumanEval": (("task_id", "prompt", "entry_point", "test"), humaneval),
    "HumanEval-X": (("task_id", "prompt", "declaration", "test"), humaneval_x),
    "MBPP": (("task_id", "test_list", "code"), mbpp),
    "MultiPL-E": (("name", "language", "prompt", "tests", "stop_tokens"), multipl_e),
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
        for text in value if name == "stops" else [value or ""]:
            if not isinstance(text, str):
                raise TypeError(f"its {name} must be text, not {type(text).__name__}")


def read(path: Path) -> list[Problem]:
    """The problems of a file, in its order.

    Raises:
        UserError: the file is unreadable or empty, a record is in none of the formats or in another than the first, or
            an id is there twice.
    """
    problems, chosen = {}, None
    for where, record in records(path):
        fits = [
            name for name, (fields, _) in FORMATS.items() if isinstance(record, dict) and set(fields) <= set(record)
        ]
        chosen = chosen or (fits[0] if fits else None)
        if chosen is None:
            known = "; ".join(f"{name} ({', '.join(fields)})" for name, (fields, _) in FORMATS.items())
            raise UserError(f"{where}: no benchmark format has these fields; known: {known}")
        if chosen not in fits:
            raise UserError(f"{where}: not in the format of the first record, {chosen}")
        try:
            problem = FORMATS[chosen][1](record)
            check_text(problem)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
            raise UserError(f"{where}: not a problem in {chosen}'s format: {error}") from error
        if problem.id in problems:
            raise UserError(f"{where}: id {problem.id} is there twice")
        problems[problem.id] = problem
    if not problems:
        raise UserError(f"{path}: holds no problem")
    return list(problems.values())
