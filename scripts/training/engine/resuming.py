"""Find the checkpoint that a stage resumes from, and remove what a killed run wrote after it."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelerate import PartialState
from transformers import TrainerCallback

from scripts.common.errors import MachineFault
from scripts.experiment.settings.machine import Machine
from scripts.training.engine.callbacks import best_checkpoint, saved_layout
from scripts.training.engine.checkpoint_folders import (
    damaged_file,
    is_complete,
    lacks,
    newest_complete,
    remove_checkpoints_except,
    set_aside,
    step_of,
)
from scripts.training.engine.parallel import check_resumable, current_layout
from scripts.training.monitoring.measurements import truncate_after


def damage_of(checkpoint: Path) -> str | None:
    """Why a complete checkpoint cannot be resumed; None where it can."""
    name = damaged_file(checkpoint)
    if name:
        return f"{name} is not what was saved"
    best = best_checkpoint(checkpoint)
    if best is None or best == checkpoint:
        return None
    if not is_complete(best) or damaged_file(best):
        return f"its best weights so far, {best.name}, are not what was saved"
    return None


def set_damaged_aside(work: Path) -> None:
    """Set checkpoints aside, from the newest on, until one is what was saved; name those that are not whole."""
    for folder in work.glob("checkpoint-*"):
        reason = lacks(folder)
        if reason:
            logging.warning(f"{folder}: {reason}; it is not used")
    while checkpoint := newest_complete(work):
        reason = damage_of(checkpoint)
        if reason is None:
            return
        set_aside(checkpoint, reason)


def resume_from(name: str, work: Path, machine: Machine, first_rank: bool) -> Path | None:
    """The checkpoint to resume from, None to start. The first rank removes what a killed run left after it. Raises
    UserError: this run's sharding and number of processes cannot read the checkpoint."""
    if first_rank:
        set_damaged_aside(work)
    PartialState().wait_for_everyone()
    checkpoint = newest_complete(work)
    if checkpoint:
        check_resumable(checkpoint, saved_layout(checkpoint), current_layout(machine))
    step = step_of(checkpoint) if checkpoint else 0
    PartialState().wait_for_everyone()  # all have looked before the first rank deletes
    if first_rank:
        # older ones stay until the next save: this one may turn out not to load
        remove_checkpoints_except(work, set(filter(is_complete, work.glob("checkpoint-*"))))
        last_logged = truncate_after(work / "metrics.jsonl", step)
        truncate_after(work / "alerts.jsonl", step)
        if checkpoint:
            logging.info(f"{name}: resumes at step {step}, work in {work}")
        else:
            logging.info(f"{name}: starts, work in {work}")
        if last_logged > step:
            logging.info(f"{name}: an earlier run came to step {last_logged}; the steps after {step} are trained again")
    return checkpoint


class Loaded(TrainerCallback):
    """Notes that the Trainer has loaded the checkpoint: training begins."""

    def __init__(self):
        self.loaded = False

    def on_train_begin(self, args, state, control, **kwargs):
        self.loaded = True


@contextmanager
def checkpoint_that_loads(trainer, checkpoint: Path | None, first_rank: bool) -> Iterator[None]:
    """Set a checkpoint aside that is what was saved and cannot be loaded all the same. Raises MachineFault: it could
    not be loaded; the next try uses an older one."""
    loaded = Loaded()
    trainer.callback_handler.callbacks.insert(0, loaded)
    try:
        yield
    except Exception as error:
        if checkpoint is None or loaded.loaded:
            raise
        if first_rank:
            set_aside(checkpoint, f"cannot be loaded ({type(error).__name__}: {error})")
        raise MachineFault(f"{checkpoint}: cannot be loaded; the next try resumes from an older checkpoint") from error
