"""Checkpoints known to be whole: a marker is written when everything else is, and only marked ones are resumed.

transformers writes a checkpoint file by file and resumes from the highest number; one that lost its optimizer to a
`kill -9` would resume silently wrong.
"""

import os
import shutil
from pathlib import Path

from accelerate import PartialState
from transformers import TrainerCallback

from scripts.common.files import read_json, write_json

MARKER = "whole.json"


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("checkpoint-"))


def mark_whole(folder: Path) -> None:
    """Flush every file of a checkpoint to disk, then write its marker: {file: bytes}."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    write_json(folder / MARKER, {str(path.relative_to(folder)): path.stat().st_size for path in files})


def is_whole(folder: Path) -> bool:
    """Whether the marker is there and every file it names has the size it says."""
    if not (folder / MARKER).is_file():
        return False
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == size
        for name, size in read_json(folder / MARKER).items()
    )


def newest_whole(work: Path) -> Path | None:
    """The whole checkpoint with the highest step below `work`, or None."""
    return max((folder for folder in work.glob("checkpoint-*") if is_whole(folder)), key=step_of, default=None)


def remove_others(work: Path, keep: set[Path]) -> None:
    """Delete the checkpoints below `work` that are not in `keep`, marker first: half-deleted must not look whole."""
    for folder in work.glob("checkpoint-*"):
        if folder not in keep:
            (folder / MARKER).unlink(missing_ok=True)
            shutil.rmtree(folder)


class WholeCheckpoints(TrainerCallback):
    """Marks each saved checkpoint whole once all ranks have written theirs, and keeps the newest `keep`."""

    def __init__(self, work: Path, keep: int):
        self.work, self.keep = work, keep

    def on_save(self, args, state, control, **kwargs):
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            mark_whole(self.work / f"checkpoint-{state.global_step}")
            whole = sorted(filter(is_whole, self.work.glob("checkpoint-*")), key=step_of)
            remove_others(self.work, set(whole[-self.keep :]))
        PartialState().wait_for_everyone()
