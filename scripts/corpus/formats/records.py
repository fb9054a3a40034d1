"""Records out of files of the user's own, or out of a hub dataset: each with the place that it was found at.

    for source, name, record in records({"kind": "chat", "path": "data/chat/qa.jsonl"}): ...

Read are .json (a list of records), .jsonl, .parquet, .txt and .md (a file is a document), folders of these, and folders
that the `datasets` library saved. A record's name is `file:line`, or `file:number` where there are no lines: unique,
and it leads back to the file. What a record must hold is up to scripts/corpus/formats/external.py.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import orjson

from scripts.common.cli import UserError
from scripts.common.files import sha256_file

SUFFIXES = (".json", ".jsonl", ".parquet", ".txt", ".md")
SAVED = ("state.json", "dataset_dict.json")  # what marks a folder that `datasets` saved
# Beyond these a file is no JSON lines, or should be some.
MAX_LINE, MAX_JSON = 64 << 20, 1 << 30
MARK = b"\xef\xbb\xbf"  # a byte order mark, which some editors put before UTF-8


def is_saved(path: Path) -> bool:
    return any((path / name).is_file() for name in SAVED)


def files_of(path: Path) -> list[Path]:
    """The files that `path`, a file or a folder, stands for, sorted; hidden ones are not read.

    Raises:
        UserError: there is none, or one of a form that is not read.
    """
    if path.is_file():
        found = [path]
    elif path.is_dir():
        inside = (file for file in path.rglob("*") if file.is_file())
        found = sorted(f for f in inside if not any(part.startswith(".") for part in f.relative_to(path).parts))
    else:
        raise UserError(f"{path}: no such file or folder; put the data there, or see `path` in the experiment")
    if not found:
        raise UserError(f"{path}: an empty folder; put the data there")
    other = next((file for file in found if file.suffix not in SUFFIXES), None)
    if other and not is_saved(path):
        raise UserError(f"{other}: not read; use {', '.join(SUFFIXES)}, or a folder that the datasets library saved")
    return found


def content_hash(path: Path) -> str:
    """One sha256 over the names, from `path` on, and the content of the files of `path`."""
    lines = [f"{file.relative_to(path.parent).as_posix()} {sha256_file(file)}\n" for file in files_of(path)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def json_lines(path: Path) -> Iterator[tuple[int, object]]:
    """(line, value) of each line of a JSON lines file; empty lines are passed over.

    Raises:
        UserError: a line is no JSON (UTF-8), or too long to be a record.
    """
    with path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE + 1), b""), 1):
            if len(line) > MAX_LINE:
                raise UserError(f"{path}: line {number}: longer than {MAX_LINE >> 20} MiB; one record a line is wanted")
            line = line.removeprefix(MARK) if number == 1 else line
            if line.strip():
                try:
                    yield number, orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise UserError(f"{path}: line {number}: not JSON: {error.msg}") from error


def json_list(path: Path) -> Iterator[tuple[int, object]]:
    """(number, value) of each record in a file that holds one JSON list.

    Raises:
        UserError: it is no JSON, no list, or too large to be read at once.
    """
    if path.stat().st_size > MAX_JSON:
        raise UserError(f"{path}: larger than {MAX_JSON >> 30} GiB; write it as JSON lines (.jsonl)")
    try:
        values = orjson.loads(path.read_bytes().removeprefix(MARK))
    except orjson.JSONDecodeError as error:
        raise UserError(f"{path}: line {error.lineno}: not JSON: {error.msg}") from error
    if not isinstance(values, list):
        raise UserError(f"{path}: must hold a list of records, not {type(values).__name__}; or name it .jsonl")
    yield from enumerate(values, 1)


def parquet(path: Path, column: str) -> Iterator[tuple[int, object]]:
    """(number, record with `column` alone) of each row of a Parquet file.

    Raises:
        UserError: it is no Parquet file, or has no such column.
    """
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(path)
        if column not in file.schema_arrow.names:
            raise UserError(f"{path}: no column {column!r}; there: {', '.join(file.schema_arrow.names)}")
        done = 0
        for batch in file.iter_batches(columns=[column]):
            yield from enumerate(batch.to_pylist(), done + 1)
            done += len(batch)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a whole Parquet file: {' '.join(str(error).split())}") from error


def whole_text(path: Path, column: str) -> Iterator[tuple[int, dict]]:
    """A text file as one record."""
    try:
        yield 1, {column: path.read_bytes().removeprefix(MARK).decode()}
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start}: not UTF-8; convert it") from error


def saved(path: Path, split: str) -> Iterator[tuple[int, object]]:
    """(number, record) of each row of a folder that the `datasets` library saved.

    Raises:
        UserError: it is none, or has no such split.
    """
    from datasets import DatasetDict, load_from_disk

    try:
        data = load_from_disk(str(path))
    except Exception as error:  # whatever a damaged Arrow file makes the library raise
        raise UserError(f"{path}: the datasets library cannot load it: {' '.join(str(error).split())}") from error
    if isinstance(data, DatasetDict):
        if split not in data:
            raise UserError(f"{path}: no split {split!r}; there: {', '.join(data)}")
        data = data[split]
    yield from enumerate(data, 1)


def hub(name: str, revision: str, split: str) -> Iterator[tuple[int, object]]:
    """(number, record) of each row of a hub dataset, read as it is needed.

    Raises:
        UserError: it cannot be had.
    """
    from datasets import load_dataset

    try:
        yield from enumerate(load_dataset(name, revision=revision, split=split, streaming=True), 1)
    except (OSError, ValueError) as error:  # no network, no such dataset or revision (both OSError), no such split
        said = " ".join(str(error).split())
        raise UserError(f"{name}: cannot bring it from the hub ({said}); it needs a network, or give `path`") from error


def records(options: dict) -> Iterator[tuple[str, str, object]]:
    """(file or dataset, id, record) of everything that a dataset's settings name, in order.

    Raises:
        UserError: something in it cannot be read; the line names file and line.
    """
    column = "messages" if options["kind"] == "chat" else options["text_column"]
    if "hub" in options:
        for number, record in hub(options["hub"], options["revision"], options["split"]):
            yield options["hub"], f"{options['split']}:{number}", record
        return
    path = Path(options["path"])
    if is_saved(path):
        for number, record in saved(path, options["split"]):
            yield str(path), f"{options['split']}:{number}", record
        return
    readers = {".jsonl": json_lines, ".json": json_list}
    for file in files_of(path):
        name = file.relative_to(path if path.is_dir() else path.parent).as_posix()
        if file.suffix in readers:
            found = readers[file.suffix](file)
        elif file.suffix == ".parquet":
            found = parquet(file, column)
        elif options["kind"] == "text":
            found = whole_text(file, column)
        else:
            raise UserError(f"{file}: holds no chats; they are read from .json, .jsonl and .parquet")
        for number, record in found:
            yield str(file), f"{name}:{number}", record
