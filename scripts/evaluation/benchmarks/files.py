"""The records of a benchmark file: JSON lines or one JSON list, also gzipped.

for where, record in records(Path("HumanEval.jsonl.gz")): ...
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path

from scripts.common.errors import UserError

# Bytes of an unpacked file. LiveCodeBench's have 100 MB to more than 1 GB, others 20 MB at most.
LARGEST = 2 << 30


def lines(path: Path) -> Iterator[str]:
    """The lines of a file, gzipped or not, one after the other. Raises UserError: as `unpacked`."""
    read = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            while line := file.readline(LARGEST + 1 - read):
                read = read + len(line)
                if read > LARGEST:
                    raise UserError(too_large(path))
                yield line.decode()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError(f"{path}: no such file") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: truncated or damaged: {error}; download it again") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text: {error}") from error


def too_large(path: Path) -> str:
    return f"{path}: more than {LARGEST >> 20} MB unpacked, which no benchmark has; give another file"


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
