"""Examples that come from no repository: chats and texts in files of the user's own, or texts of a hub dataset.

`compose` calls this for the kinds `chat` and `text`; the command is that of scripts/corpus/compose.py without --splits:

    python -m scripts.corpus.compose --out results/corpus/compose/qa \\
        --settings '{"kind": "chat", "path": "data/chat/qa.jsonl", "validation": 0.02, "test": 0.02, "seed": 42}'

Read are .json (a list of records), .jsonl, .parquet, .txt and .md (a file is a document), folders of these, and folders
that the `datasets` library saved. A split is decided by a hash of the content, so an example keeps it wherever it
stands, and the same content twice is kept once. An example's id is `file:line`, or `file:number` where there are no
lines: unique, and it leads back to the file. Ids that records bring along are not used.
"""

import hashlib
import heapq
import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import orjson

from scripts.common.cli import Progress, UserError
from scripts.common.files import jsonl_writer, sha256_file
from scripts.common.manifest import write_manifest
from scripts.corpus.split import SPLITS

KINDS = ("chat", "text")
ROLES = ("system", "user", "assistant")
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


def chat(record: object, where: str) -> tuple[list[dict], str | None]:
    """(a record's messages, the reason why they make no example or None).

    Raises:
        UserError: there are none, or one has a wrong role or no text.
    """
    messages = record.get("messages") if isinstance(record, dict) else None
    if not isinstance(messages, list):
        raise UserError(f"{where}: no `messages`; a record is {{'messages': [{{'role': ..., 'content': ...}}, ...]}}")
    for place, message in enumerate(messages, 1):
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            role = message.get("role") if isinstance(message, dict) else message
            raise UserError(f"{where}: message {place}: role must be {', '.join(ROLES)}, not {str(role)[:40]!r}")
        if not isinstance(message.get("content"), str):
            raise UserError(f"{where}: message {place}: content must be text, not {message.get('content')!r:.40}")
    turns = [{"role": message["role"], "content": message["content"]} for message in messages]
    if not turns:
        return turns, "empty"
    answers = [turn["content"] for turn in turns if turn["role"] == "assistant"]
    return turns, None if any(answer.strip() for answer in answers) else "no_answer"


def text(record: object, where: str, column: str) -> tuple[str, str | None]:
    """(a record's text, the reason why it makes no example or None).

    Raises:
        UserError: it has no such column, or no text in it.
    """
    if not isinstance(record, dict) or column not in record:
        there = ", ".join(record) if isinstance(record, dict) else type(record).__name__
        raise UserError(f"{where}: no {column!r} in it; there: {there}; see `text_column`")
    value = record[column]
    if value is not None and not isinstance(value, str):
        raise UserError(f"{where}: {column!r} must be text, not {type(value).__name__}")
    return value or "", None if value and value.strip() else "empty"


def contents(options: dict) -> Iterator[tuple[bytes, dict, str | None]]:
    """(content hash, example, why it is dropped or None) of each record; of equal contents the first is kept."""
    seen, size = set(), 0
    for source, name, record in records(options):
        where = f"{source}: {name.rpartition(':')[2]}"
        if options["kind"] == "chat":
            body, reason = chat(record, where)
            content = {"messages": body}
        else:
            body, reason = text(record, where, options["text_column"])
            content = {"text": body}
        try:
            digest = hashlib.sha256(json.dumps(body, ensure_ascii=False).encode()).digest()
        except UnicodeEncodeError as error:  # half of a surrogate pair, which no UTF-8 holds
            raise UserError(f"{where}: holds characters that are no Unicode text; repair it") from error
        reason = reason or ("duplicate" if digest in seen else None)
        seen.add(digest)
        if reason is None and "max_megabytes" in options:
            size += len(body.encode())
            if size > options["max_megabytes"] * 1e6:
                logging.info(f"compose: stops at {source}, {name}: max_megabytes")
                return
        yield digest, {"id": name, "language": options["kind"], "source": source, **content}, reason


def split_by(digest: bytes, options: dict) -> str:
    """The split of a content hash: first the share of test, then that of validation."""
    place = int.from_bytes(digest[:8]) / 2**64
    if place < options["test"]:
        return "test"
    return "validation" if place < options["test"] + options["validation"] else "train"


def last_of_sample(options: dict) -> bytes:
    """The rank of the last content that `max_samples` lets through; a rank is a hash of content and seed."""
    ranks = (rank(digest, options) for digest, _, reason in contents(options) if reason is None)
    return max(heapq.nsmallest(options["max_samples"], ranks), default=b"")


def rank(digest: bytes, options: dict) -> bytes:
    return hashlib.sha256(f"{options['seed']}:".encode() + digest).digest()


def compose(options: dict, out: Path) -> dict:
    """Write the examples of an external dataset to one file per split in `out`; the manifest.

    Args:
        options: the dataset's settings (`corpus.compose.NAME`) and `seed`.

    Raises:
        UserError: the content is not that of `sha256`, something in it is malformed, or nothing is left to train on.
    """
    if "sha256" in options and (found := content_hash(Path(options["path"]))) != options["sha256"]:
        raise UserError(f"corpus.compose.{out.name}.sha256: the content of {options['path']} is {found}")
    last = last_of_sample(options) if "max_samples" in options else None
    made, dropped = Counter(), {split: Counter() for split in SPLITS}
    progress = Progress(f"compose {out.name}", "examples")
    with ExitStack() as stack:
        write = {split: stack.enter_context(jsonl_writer(out / f"{split}.jsonl.zst")) for split in SPLITS}
        for digest, example, reason in contents(options):
            split = split_by(digest, options)
            if reason is None and last is not None and rank(digest, options) > last:
                reason = "not_sampled"
            if reason:
                dropped[split][reason] += 1
                continue
            write[split](example)
            made[split] += 1
            progress.add()
        if not made["train"]:
            where = options.get("path") or options["hub"]
            raise UserError(f"{where}: no example left to train on; dropped: {dict(sum(dropped.values(), Counter()))}")
    progress.end()
    facts = {"kind": options["kind"], "examples": {split: made[split] for split in SPLITS}, "dropped": dropped}
    return write_manifest(out, [f"{split}.jsonl.zst" for split in SPLITS], **facts)
