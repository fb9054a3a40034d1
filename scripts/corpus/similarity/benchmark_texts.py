"""Read the prompts and solutions of benchmark problems, in almost any format, for decontamination.

    texts = read_problems([Path("HumanEval.jsonl.gz")])     # ProblemText(suite, dataset, id, language, text)

A file is JSON lines or a JSON list, also gzipped, or YAML with a mapping of cases by name. Only the fields in `FIELDS`
are read, which hold prompts and solutions; tests are not. For scoring, scripts/evaluation/benchmarks/formats.py reads
all fields.
"""

from pathlib import Path

from scripts.common.errors import UserError
from scripts.corpus.formats.record_readers import format_of, json_lines, json_list
from scripts.corpus.similarity.overlaps import ProblemText
from scripts.experiment.machine_files import read_yaml

FIELDS = (
    *("prompt", "declaration", "text", "question", "instruction", "input", "problem", "description", "content"),
    *("canonical_solution", "code", "solution", "answer", "output", "response", "reference"),
)
IDS = ("task_id", "id", "name", "question_id", "problem_id")


def read_records(path: Path) -> list[tuple[str, object]]:
    """(name, record) of each record of a file; the name is used if the record has no id."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; corpus.filter.decontaminate reads the benchmarks' problems from it")
    readers = {".jsonl": json_lines, ".jsonl.gz": json_lines, ".json": json_list}
    if path.suffix in (".yaml", ".yml"):
        records = [(str(name), record) for name, record in read_yaml(path).items()]
    elif reader := readers.get(format_of(path)):
        records = [(str(number), record) for number, record in reader(path)]
    else:
        raise UserError(f"{path}: format not supported; use {', '.join(readers)} or .yaml")
    if not records:
        raise UserError(f"{path}: holds no problem")
    return records


def problem_of(path: Path, name: str, record: object) -> ProblemText:
    """The problem in a record."""
    if isinstance(record, dict):
        texts = [record[key] for key in FIELDS if isinstance(record.get(key), str)]
    else:
        texts = []
    if not texts:
        raise UserError(f"{path}: record {name}: no text; it must have one of the fields {', '.join(FIELDS)}")
    identity = next((str(record[key]) for key in IDS if isinstance(record.get(key), str | int)), name)
    return ProblemText("", path.name, identity, str(record.get("language", "")), "\n".join(texts))


def read_problems(paths: list[Path]) -> list[ProblemText]:
    """The problems of all files. Raises UserError: a file cannot be read, or a record holds no text."""
    found = []
    for path in paths:
        for name, record in read_records(path):
            found.append(problem_of(path, name, record))
    return found
