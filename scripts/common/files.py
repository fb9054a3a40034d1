"""Write files atomically (to a temporary name in the same folder, then rename); read and write JSON and JSON lines."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import orjson
import zstandard

from scripts.common.disk import disk_errors
from scripts.common.errors import UserError


def flush(path: Path) -> None:
    """Write a file's content, or a folder's names, to the disk: after a power cut a name may lie on an empty file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` if the block succeeds, else delete it. Raises
    UserError: see `disk_errors`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with disk_errors(path):  # inside, so that it gives the free space before the removal
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            flush(temporary)
            temporary.replace(path)
            flush(path.parent)
    except BaseException:
        with suppress(OSError):  # on a read-only disk it cannot be removed either
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder_beside(out: Path) -> Iterator[Path]:
    """Yield a folder on the disk of `out` for what will be published there; it is removed at the end of the block.
    Raises UserError: see `disk_errors`."""
    with disk_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as temporary:
            yield Path(temporary)


def publish_files(folder: Path, out: Path, last: str) -> None:
    """Move all files of a finished folder into `out`, on the same disk, the one named `last` after all others.

    They get the mode of any new file: safetensors makes its own readable for the owner alone.
    """
    umask = int(re.search(r"^Umask:\s*(\d+)", Path("/proc/self/status").read_text(), re.MULTILINE).group(1), 8)
    names = sorted(path.name for path in folder.iterdir() if path.is_file() and path.name != last)
    out.mkdir(parents=True, exist_ok=True)
    for name in [*names, last]:
        (folder / name).chmod(0o666 & ~umask)
        flush(folder / name)
        if name == last:
            flush(out)  # the others have their names
        (folder / name).replace(out / name)
    flush(out)


def write_json(path: Path, value: object, first: Sequence[str] = ()) -> None:
    """Write `value` as indented JSON with sorted keys, atomically: equal values give equal bytes. `first`: keys of
    `value` that stand before all others, for people."""
    data = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    if first:
        in_order = orjson.loads(data)
        in_order = {key: in_order[key] for key in first} | in_order
        data = orjson.dumps(in_order, option=orjson.OPT_INDENT_2)
    with atomic(path) as temporary:
        temporary.write_bytes(data + b"\n")


def read_json(path: Path) -> dict:
    """The JSON object in `path`. Raises UserError: the file is missing or is not JSON."""
    try:
        return orjson.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except orjson.JSONDecodeError as error:
        raise UserError(f"{path}: not JSON: {error}") from error


def read_json_or_empty(path: Path) -> dict:
    """The JSON object in `path`; an empty one if the file is missing, half written or holds something else."""
    try:
        content = orjson.loads(path.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    if isinstance(content, dict):
        return content
    return {}


def seal(content: dict) -> str:
    """A sha256 over JSON content, kept beside it: what was changed since no longer has it."""
    return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


def read_cache(path: Path) -> dict:
    """What `write_cache` wrote; empty where there is nothing that it wrote, such as a file in which a digit changed."""
    try:
        record = orjson.loads(path.read_bytes())
        content = record["content"]
        if record["sha256"] == seal(content):
            return content
        return {}
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return {}


def write_cache(path: Path, content: dict) -> None:
    """Keep what takes long to compute, where it can be kept: on a disk that is full or read-only nothing is."""
    with suppress(OSError, UserError):
        write_json(path, {"content": content, "sha256": seal(content)})


def sha256_file(path: Path) -> str:
    """The hex sha256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def jsonl_writer(path: Path) -> Iterator[Iterator]:
    """Yield `write(record)` that appends one JSON line to `path` (.jsonl.zst); the file appears when the block ends.

    The bytes depend on the records alone: no time, no thread count.
    """
    compressor = zstandard.ZstdCompressor(level=1)  # of code 14% more bytes than level 3, but filter is a fifth faster
    with atomic(path) as temporary, temporary.open("wb") as file, compressor.stream_writer(file) as stream:
        yield lambda record: stream.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))


def write_jsonl(path: Path, records: Iterable[dict]) -> None:
    """Write `records` to `path` (.jsonl.zst), atomically."""
    with jsonl_writer(path) as write:
        for record in records:
            write(record)


def read_jsonl(path: Path) -> Iterator[dict]:
    """Yield the records of a .jsonl.zst file. Raises UserError: the file is missing, is not zstd, is truncated, or a
    line is not JSON; the message names the line."""
    # not zstandard's stream reader, which reads a truncated file without an error
    decompressor, number, rest = zstandard.ZstdDecompressor().decompressobj(), 1, b""
    try:
        with path.open("rb") as file:
            while chunk := file.read(1 << 18):
                *lines, rest = (rest + decompressor.decompress(chunk)).split(b"\n")
                for line in lines:
                    yield orjson.loads(line)
                    number += 1
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (zstandard.ZstdError, orjson.JSONDecodeError) as error:
        raise UserError(f"{path}: line {number}: {error}") from error
    if not decompressor.eof or rest:
        raise UserError(f"{path}: line {number}: the file is truncated; delete it and run again")
