"""Read records from the user's own files or from a hub dataset, each with its file and line for error messages.

    for source, name, record in records(settings): ...

Formats: .json (a list of records), .jsonl and .jsonl.gz, .csv (a header line), .parquet, .txt and .md (a file is a
document), folders of these, and folders that the `datasets` library saved. A record's name is `file:line`, or
`file:number` in formats without lines: it is unique and leads back to the file. scripts/corpus/formats/own_datasets.py
checks what a record holds.
"""

import csv
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import orjson

from scripts.common.errors import UserError
from scripts.common.files import sha256_file
from scripts.corpus.formats.chat_forms import BESIDE, BadRecord
from scripts.experiment.settings.corpus import CHAT_FIELDS, ChatDataset, TextDataset

FORMATS = (".json", ".jsonl", ".jsonl.gz", ".csv", ".parquet", ".txt", ".md")
SAVED = ("state.json", "dataset_dict.json")  # one of these is in every folder that `datasets` saved
# A longer line is no record; a larger JSON list should be JSON lines (bytes).
MAX_LINE, MAX_JSON = 64 << 20, 1 << 30
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors write it before UTF-8


def format_of(path: Path) -> str:
    """The end of a file's name that says its format: `.jsonl`, `.jsonl.gz`."""
    if path.suffix == ".gz":
        return "".join(path.suffixes[-2:])
    return path.suffix


def is_saved_dataset(path: Path) -> bool:
    """Whether `path` is a folder that the `datasets` library saved."""
    return any((path / name).is_file() for name in SAVED)


def files_of(path: Path) -> list[Path]:
    """The file `path`, or the files below the folder `path`, sorted; hidden files are left out. Raises UserError: there
    is no file, or one whose format is not supported."""
    if path.is_file():
        files = [path]
    elif path.is_dir():
        # neither hidden nor in a hidden folder
        files = sorted(f for f in path.rglob("*") if f.is_file() and "/." not in f"/{f.relative_to(path)}")
    else:
        raise UserError(f"{path}: no such file or folder; put the data there, or see `path` in the experiment")
    if not files:
        raise UserError(f"{path}: an empty folder; put the data there")
    other = next((file for file in files if format_of(file) not in FORMATS), None)
    if other and not is_saved_dataset(path):
        supported = ", ".join(FORMATS)
        raise UserError(f"{other}: format not supported; use {supported}, or a folder that the datasets library saved")
    return files


def content_hash(path: Path) -> str:
    """One sha256 over the names, relative to the parent of `path`, and the contents of its files."""
    lines = [f"{file.relative_to(path.parent).as_posix()} {sha256_file(file)}\n" for file in files_of(path)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def lines_of(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """The lines of a file, cut after `MAX_LINE` bytes and one more."""
    try:
        yield from iter(lambda: file.readline(MAX_LINE + 1), b"")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: not a complete gzip file: {error}") from error


def json_value(raw: bytes) -> object:
    """A JSON value; NaN and Infinity, which Python's own writer gives for missing numbers, are None."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        if b"NaN" in raw or b"Infinity" in raw:
            with suppress(ValueError, TypeError):
                return orjson.loads(orjson.dumps(json.loads(raw)))
        raise


def reason(raw: bytes | str, error: orjson.JSONDecodeError) -> str:
    """Why a value is not JSON; of one in GBK, say, orjson only speaks of surrogates."""
    if isinstance(raw, bytes):
        try:
            raw.decode()
        except UnicodeDecodeError:
            return "it is not UTF-8; convert it"
    return error.msg


def json_lines(path: Path, keep_bad: bool = False) -> Iterator[tuple[int, object]]:
    """(line, value) of each line of a JSON lines file, which may be gzipped; empty lines are skipped.

    Args:
        keep_bad: whether a line that is not JSON is a value too, its error.

    Raises:
        UserError: a line is not JSON (UTF-8), or longer than `MAX_LINE` bytes, or the file is no whole gzip file.
    """
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(lines_of(file, path), 1):
            if len(line) > MAX_LINE:
                raise UserError(f"{path}: line {number}: longer than {MAX_LINE >> 20} MiB; write one record a line")
            if number == 1:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if line.strip():
                try:
                    yield number, json_value(line)
                except orjson.JSONDecodeError as error:
                    bad = BadRecord("not_json", f"{path}: line {number}: not JSON: {reason(line, error)}")
                    if not keep_bad:
                        raise bad from error
                    yield number, bad


def json_list(path: Path) -> Iterator[tuple[int, object]]:
    """(number, value) of each record in a file that holds one JSON list. Raises UserError: it is not JSON, not a list,
    or larger than `MAX_JSON` bytes."""
    if path.stat().st_size > MAX_JSON:
        raise UserError(f"{path}: larger than {MAX_JSON >> 30} GiB; write it as JSON lines (.jsonl)")
    try:
        values = json_value(path.read_bytes().removeprefix(BYTE_ORDER_MARK))
    except orjson.JSONDecodeError as error:
        raise UserError(f"{path}: line {error.lineno}: not JSON: {reason(error.doc, error)}") from error
    if not isinstance(values, list):
        raise UserError(f"{path}: must hold a list of records, not {type(values).__name__}; or name it .jsonl")
    yield from enumerate(values, 1)


def csv_rows(path: Path) -> Iterator[tuple[int, object]]:
    """(line, record) of each row of a CSV file; its first line names the columns."""
    limit = csv.field_size_limit(MAX_LINE)  # of all readers in this process
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            for row in reader:
                if None in row or None in row.values():
                    cells, columns = len(row.get(None, [])), len(reader.fieldnames)
                    raise UserError(
                        f"{path}: line {reader.line_num}: {'more' if cells else 'fewer'} cells than the"
                        f" {columns} columns; quote cells that hold commas, quotes or line ends"
                    )
                yield reader.line_num, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not CSV in UTF-8: {error}") from error
    finally:
        csv.field_size_limit(limit)


def parquet(path: Path, column_names: tuple[str, ...], beside: tuple[str, ...] = ()) -> Iterator[tuple[int, object]]:
    """(number, record with those of the columns that the file has) of each row of a Parquet file.

    Args:
        beside: columns that are read, too, where the file has one of the others.

    Raises:
        UserError: it is not a Parquet file, is damaged or truncated, or has no such column.
    """
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        file = ParquetFile(path)
        columns = [name for name in file.schema_arrow.names if name in column_names]
        if not columns:
            raise UserError(f"{path}: no column {column_names[0]!r}; it has: {', '.join(file.schema_arrow.names)}")
        rows = 0
        columns += [name for name in file.schema_arrow.names if name in beside and name not in columns]
        for batch in file.iter_batches(columns=columns):
            yield from enumerate(batch.to_pylist(), rows + 1)
            rows += len(batch)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a Parquet file, or a damaged one: {' '.join(str(error).split())}") from error


def whole_text(path: Path, column: str) -> Iterator[tuple[int, dict]]:
    """A text file as one record."""
    try:
        yield 1, {column: path.read_bytes().removeprefix(BYTE_ORDER_MARK).decode()}
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start}: not UTF-8; convert it") from error


def saved_dataset(path: Path, split: str) -> Iterator[tuple[int, object]]:
    """(number, record) of each row of a folder that the `datasets` library saved."""
    from datasets import DatasetDict, load_from_disk

    try:
        data = load_from_disk(str(path))
    except Exception as error:  # whatever a damaged Arrow file makes the library raise
        raise UserError(f"{path}: the datasets library cannot load it: {' '.join(str(error).split())}") from error
    if isinstance(data, DatasetDict):
        if split not in data:
            raise UserError(f"{path}: no split {split!r}; it has: {', '.join(data)}")
        data = data[split]
    yield from enumerate(data, 1)


def hub_dataset(name: str, revision: str, split: str) -> Iterator[tuple[int, object]]:
    """(number, record) of each row of a hub dataset, streamed."""
    from datasets import load_dataset

    try:
        yield from enumerate(load_dataset(name, revision=revision, split=split, streaming=True), 1)
    except (OSError, ValueError) as error:  # no network, no such dataset or revision (both OSError), no such split
        reason = " ".join(str(error).split())
        raise UserError(
            f"{name}: cannot download it from the hub ({reason}); check the network, or give `path`"
        ) from error


def records(settings: ChatDataset | TextDataset) -> Iterator[tuple[str, str, object]]:
    """(file or dataset, id, record) of every record that a dataset's settings name, in order. Raises UserError:
    something cannot be read; the message names file and line."""
    if settings.hub:
        for number, record in hub_dataset(settings.hub, settings.revision, settings.split):
            yield settings.hub, f"{settings.split}:{number}", record
        return
    path = Path(settings.path)
    if is_saved_dataset(path):
        for number, record in saved_dataset(path, settings.split):
            yield str(path), f"{settings.split}:{number}", record
        return
    chats = isinstance(settings, ChatDataset)
    columns = (*CHAT_FIELDS, *settings.columns.values()) if chats else (settings.text_column,)
    for file in files_of(path):
        name = file.relative_to(path if path.is_dir() else path.parent).as_posix()
        form = format_of(file)
        if form in (".jsonl", ".jsonl.gz"):
            numbered = json_lines(file, keep_bad=chats)
        elif form == ".json":
            numbered = json_list(file)
        elif form == ".csv":
            numbered = csv_rows(file)
        elif form == ".parquet":
            numbered = parquet(file, columns, BESIDE if chats else ())
        elif isinstance(settings, TextDataset):
            numbered = whole_text(file, settings.text_column)
        else:
            raise UserError(f"{file}: holds no chats; they are read from .json, .jsonl, .csv and .parquet")
        for number, record in numbered:
            yield str(file), f"{name}:{number}", record
