"""Mark checkpoints as complete while a stage trains, and delete all but the newest `keep_checkpoints`.

What the marker is for is said in scripts/training/engine/checkpoint_folders.py.
"""

from pathlib import Path

from accelerate import PartialState
from transformers import TrainerCallback

from scripts.training.engine.checkpoint_folders import (
    is_complete,
    mark_complete,
    read_marker,
    remove_checkpoints_except,
    step_of,
)
from scripts.training.engine.parallel import Layout
from scripts.training.engine.run_lock import Ownership


def saved_layout(folder: Path) -> Layout:
    """The layout of a whole checkpoint."""
    return Layout(**read_marker(folder)["made_by"])


class CompleteCheckpoints(TrainerCallback):
    """Marks each saved checkpoint whole once all ranks have written theirs; keeps the newest `keep` and the best.
    `owner`: the first rank's claim on the work folder, None on other ranks."""

    def __init__(self, work: Path, keep: int, layout: Layout, owner: Ownership | None):
        self.work, self.keep, self.layout, self.owner = work, keep, layout, owner

    def on_save(self, args, state, control, **kwargs):
        PartialState().wait_for_everyone()
        if self.owner:
            self.owner.check()
            mark_complete(self.work / f"checkpoint-{state.global_step}", self.layout._asdict())
            complete = sorted(filter(is_complete, self.work.glob("checkpoint-*")), key=step_of)
            best = self.work / f"checkpoint-{state.best_global_step}"  # known only to a stage with `keep_best`
            remove_checkpoints_except(self.work, {*complete[-self.keep :], best})
        PartialState().wait_for_everyone()
