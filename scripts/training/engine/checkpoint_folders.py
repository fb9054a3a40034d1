"""Complete checkpoints: a marker file is written last, and only checkpoints with a marker are resumed.

transformers writes a checkpoint file by file and resumes from the highest number; one that lost its optimizer to a
`kill -9` would resume with a wrong state, without an error. The marker holds a hash of each file, which is compared
before a stage resumes: one flipped bit would otherwise train other weights, without an error too. A checkpoint that is
not what was saved is set aside, and the next older one is used. Nothing here imports torch.
"""

import logging
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import xxhash

from scripts.common.errors import UserError
from scripts.common.files import read_json_or_empty, seal, write_json
from scripts.training.engine.run_lock import Ownership

MARKER = "whole.json"
SET_ASIDE = "damaged-"  # before the name of a checkpoint that cannot be used
CHUNK = 1 << 24


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("checkpoint-"))


def file_hash(path: Path) -> str:
    """A hash of a file's bytes: xxh3, as it must find broken disks, not forgeries, in 100 GB."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            digest.update(data)
    return digest.hexdigest()


def hashes_of(paths: list[Path]) -> list[str]:
    with ThreadPoolExecutor() as pool:  # xxhash lets go of the interpreter lock
        return list(pool.map(file_hash, paths))


def mark_complete(folder: Path, made_by: dict) -> None:
    """Flush every file of a checkpoint to disk, then write its marker. `made_by`: the layout of the processes that
    saved it."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MARKER)
    for path in paths:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    files = {}
    for path, digest in zip(paths, hashes_of(paths), strict=True):
        files[str(path.relative_to(folder))] = {"bytes": path.stat().st_size, "xxh3": digest}
    content = {"files": files, "made_by": made_by}
    write_json(folder / MARKER, content | {"seal": seal(content)})


def read_marker(folder: Path) -> dict | None:
    """`files` and `made_by` of a checkpoint; None without a marker, or if it is not what was written."""
    content = read_json_or_empty(folder / MARKER)
    sealed = content.pop("seal", None)
    if sealed == seal(content):
        return content
    return None


def lacks(folder: Path) -> str | None:
    """Why a checkpoint is not whole: it lacks its marker, or a file as long as the marker says; None if it is."""
    marker = read_marker(folder)
    if marker is None:
        if (folder / MARKER).exists():
            return f"{MARKER} is not what was written"
        return "it was not saved to its end"
    for name, expected in marker["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != expected["bytes"]:
            return f"{name} has {path.stat().st_size:,} bytes, not {expected['bytes']:,}"
    return None


def is_complete(folder: Path) -> bool:
    """Whether the marker exists and every file it names has the size that it records."""
    return lacks(folder) is None


def damaged_file(folder: Path) -> str | None:
    """The first file of a complete checkpoint whose content is not what was saved; None where all are."""
    expected = read_marker(folder)["files"]
    found = hashes_of([folder / name for name in expected])
    for name, digest in zip(expected, found, strict=True):
        if digest != expected[name]["xxh3"]:
            return name
    return None


def set_aside(folder: Path, reason: str) -> None:
    """Rename a checkpoint that cannot be used, and say so in the log; pruning removes it with the others."""
    place = folder.with_name(f"{SET_ASIDE}{folder.name}")
    shutil.rmtree(place, ignore_errors=True)
    folder.rename(place)
    logging.warning(f"{folder}: {reason}; set aside as {place.name}, the next older checkpoint is used")


def newest_complete(work: Path) -> Path | None:
    """The whole checkpoint with the highest step below `work`, or None."""
    return max((folder for folder in work.glob("checkpoint-*") if is_complete(folder)), key=step_of, default=None)


def remove_checkpoints_except(work: Path, keep: set[Path]) -> None:
    """Delete the checkpoints below `work` that are not in `keep`, marker first: half-deleted must not look whole."""
    for folder in work.glob("checkpoint-*"):
        if folder not in keep:
            (folder / MARKER).unlink(missing_ok=True)
            # another run may write or delete there until it notices that this one owns the folder (run_lock.py)
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def no_half_written_checkpoint(work: Path, owner: Ownership | None) -> Iterator[None]:
    """If the block fails, remove the checkpoint that was being written: on a full disk it is in the way.

    Args:
        owner: the first rank's claim on the folder, None on other ranks, which remove nothing.

    Raises:
        UserError: another run owns the folder by now. It removes what this one was writing, so any error may follow.
    """
    try:
        yield
    except Exception as error:
        if owner and owner.is_lost():
            raise UserError(owner.lost_message()) from error
        for folder in work.glob("checkpoint-*"):
            if owner and not is_complete(folder):
                shutil.rmtree(folder, ignore_errors=True)
        raise
