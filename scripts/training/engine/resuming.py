"""Find the checkpoint that a stage resumes from, and remove what a killed run wrote after it."""

import logging
from pathlib import Path

from accelerate import PartialState

from scripts.experiment.settings.machine import Machine
from scripts.training.engine.checkpoint_folders import newest_complete, remove_checkpoints_except, step_of
from scripts.training.engine.checkpoints import saved_layout
from scripts.training.engine.early_stopping import best_checkpoint
from scripts.training.engine.parallel import check_resumable, current_layout
from scripts.training.monitoring.metric_log import truncate_after


def resume_from(name: str, work: Path, machine: Machine, first_rank: bool) -> Path | None:
    """The checkpoint to resume from, None to start. The first rank removes what a killed run left after it.

    Raises:
        UserError: this run's sharding and number of processes cannot read the checkpoint.
    """
    checkpoint = newest_complete(work)
    if checkpoint:
        check_resumable(checkpoint, saved_layout(checkpoint), current_layout(machine))
    step = step_of(checkpoint) if checkpoint else 0
    PartialState().wait_for_everyone()  # all have looked before the first rank deletes
    if first_rank:
        remove_checkpoints_except(work, {checkpoint, best_checkpoint(checkpoint)} if checkpoint else set())
        truncate_after(work / "metrics.jsonl", step)
        truncate_after(work / "alerts.jsonl", step)
        logging.info(f"{name}: {f'resumes at step {step}' if checkpoint else 'starts'}, work in {work}")
    return checkpoint
