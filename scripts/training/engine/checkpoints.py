"""Checkpoints known to be whole: a marker is written after everything else, and only marked ones are resumed.

transformers writes a checkpoint file by file and resumes from the highest number; one that lost its optimizer to a
`kill -9` would resume with a wrong state, without an error.
"""

import os
import shutil
from pathlib import Path

from accelerate import PartialState
from transformers import TrainerCallback

from scripts.common.files import read_json, write_json
from scripts.training.engine.parallel import Layout

MARKER = "whole.json"


def step_of(folder: Path) -> int:
    return int(folder.name.removeprefix("checkpoint-"))


def mark_whole(folder: Path, layout: Layout) -> None:
    """Flush every file of a checkpoint to disk, then write its marker: {"files": {file: bytes}, "made_by": layout}."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    sizes = {str(path.relative_to(folder)): path.stat().st_size for path in files}
    write_json(folder / MARKER, {"files": sizes, "made_by": layout._asdict()})


def is_whole(folder: Path) -> bool:
    """Whether the marker exists and every file it names has the size that it records."""
    if not (folder / MARKER).is_file():
        return False
    return all(
        (folder / name).is_file() and (folder / name).stat().st_size == size
        for name, size in read_json(folder / MARKER)["files"].items()
    )


def saved_layout(folder: Path) -> Layout:
    """The layout of a whole checkpoint."""
    return Layout(**read_json(folder / MARKER)["made_by"])


def newest_whole(work: Path) -> Path | None:
    """The whole checkpoint with the highest step below `work`, or None."""
    return max((folder for folder in work.glob("checkpoint-*") if is_whole(folder)), key=step_of, default=None)


def remove_checkpoints_except(work: Path, keep: set[Path]) -> None:
    """Delete the checkpoints below `work` that are not in `keep`, marker first: half-deleted must not look whole."""
    for folder in work.glob("checkpoint-*"):
        if folder not in keep:
            (folder / MARKER).unlink(missing_ok=True)
            shutil.rmtree(folder)


class WholeCheckpoints(TrainerCallback):
    """Marks each saved checkpoint whole once all ranks have written theirs; keeps the newest `keep` and the best."""

    def __init__(self, work: Path, keep: int, layout: Layout):
        self.work, self.keep, self.layout = work, keep, layout

    def on_save(self, args, state, control, **kwargs):
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            mark_whole(self.work / f"checkpoint-{state.global_step}", self.layout)
            whole = sorted(filter(is_whole, self.work.glob("checkpoint-*")), key=step_of)
            best = self.work / f"checkpoint-{state.best_global_step}"  # known only to a stage with `keep_best`
            remove_checkpoints_except(self.work, {*whole[-self.keep :], best})
        PartialState().wait_for_everyone()
