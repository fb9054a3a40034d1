"""Convert warm-up, log, evaluation and save intervals from shares to steps, and check that they make sense.

intervals(settings, 207)    # Intervals(warmup=7, log=1, eval=10, save=20) with the default shares
"""

import logging
import math
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.experiment.settings.training import Shape, Stage

ENOUGH = 20  # evaluations and logged metrics in a stage, below which a curve shows little


class Intervals(NamedTuple):
    """Optimizer steps."""

    warmup: int  # from the first step on
    log: int  # between logged metrics
    eval: int  # between validation losses
    save: int  # between checkpoints


def every(steps: int, share: float) -> int:
    """A share of the steps, rounded down so that 0.05 never gives fewer than 20; at least one step."""
    return max(1, math.floor(share * steps + 1e-9))


def warmup_of(share: float, steps: int) -> int:
    """A share of the steps, rounded up as transformers does, but never all of them."""
    return min(math.ceil(share * steps - 1e-9), steps - 1)


def intervals(settings: Stage, steps: int) -> Intervals:
    """The intervals of a stage of `steps` optimizer steps; a number of steps that is given goes before its share."""
    warmup = settings.warmup_steps
    return Intervals(
        warmup_of(settings.warmup_share, steps) if warmup is None else warmup,
        settings.log_steps or every(steps, settings.log_share),
        settings.eval_steps or every(steps, settings.eval_share),
        settings.save_steps or every(steps, settings.save_share),
    )


def check_schedule(name: str, settings: Stage, steps: int) -> None:
    """Check that a stage of `steps` optimizer steps gets past its warm-up, and evaluates where it selects by that.

    Raises:
        UserError: it does not; the line names a value that fits.
    """
    chosen, key = intervals(settings, steps), f"training.train.{name}"
    warmup_key = "warmup_share" if settings.warmup_steps is None else "warmup_steps"
    if chosen.warmup >= steps and chosen.warmup:
        raise UserError(
            f"{key}.warmup_steps: {chosen.warmup:,} of the stage's {steps:,} steps leave none after the warm-up; "
            f"use `warmup_share: 0.03`, here {warmup_of(0.03, steps)} steps, instead"
        )
    decay = round(settings.decay_share * steps) if settings.scheduler == "warmup-stable-decay" else 0
    if chosen.warmup + decay > steps:
        raise UserError(
            f"{key}.{warmup_key}: {chosen.warmup:,} steps and a decay of {decay:,} are more than the stage's {steps:,};"
            f" use at most {steps - decay:,} steps of warm-up"
        )
    for setting in ("keep_best", "early_stopping"):
        if getattr(settings, setting) and chosen.eval > steps:
            raise UserError(
                f"{key}.eval_steps: {chosen.eval:,} is more than the stage's {steps:,} steps, so `{setting}` has no "
                f"validation loss to decide by; use `eval_share: 0.05`, here {every(steps, 0.05)} steps, instead"
            )


def schedule_warnings(
    name: str, settings: Stage, steps: int, ranks: int, validation_rows: int | None = None
) -> list[str]:
    """One line for each setting by which a stage of `steps` steps shows or keeps too little, with what would do.

    Args:
        ranks: processes that train together, and score the validation rows together.
        validation_rows: packed ones; None before they are packed.
    """
    chosen, key, lines = intervals(settings, steps), f"training.train.{name}", []
    enough = every(steps, 1 / ENOUGH)
    for setting, results, interval in (("eval", "evaluations", chosen.eval), ("log", "logged metrics", chosen.log)):
        if interval > enough and (setting == "log" or validation_rows != 0):
            lines.append(
                f"{key}.{setting}_steps: {interval:,} gives {steps // interval} {results} in {steps:,} steps; "
                f"{enough:,}, or `{setting}_share: {1 / ENOUGH}`, would give {steps // enough}"
            )
    if chosen.save >= steps > 1:
        lines.append(
            f"{key}.save_steps: {chosen.save:,} makes no checkpoint before the end of {steps:,} steps, so a killed job "
            f"starts at step 0; {every(steps, 0.1):,}, or `save_share: 0.1`, would make {steps // every(steps, 0.1)}"
        )
    if settings.eval_rows < ranks:
        lines.append(f"{key}.eval_rows: {settings.eval_rows} leaves some of the {ranks} processes none; use {ranks}")
    elif validation_rows == 0:
        lines.append(f"{key}.data: no validation rows, so no validation loss is measured; make `validation` larger")
    elif validation_rows and validation_rows < ranks:
        lines.append(
            f"{key}.data: {validation_rows} validation rows leave some of the {ranks} processes none; "
            f"make `validation` {ranks / validation_rows:.1f} times as large, or use fewer GPUs"
        )
    return lines


def length_warnings(name: str, settings: Stage, shape: Shape | None) -> list[str]:
    """One line if rows are longer than what the model was made for; a row is as long as its longest document may be."""
    if shape is None or settings.sequence_length <= (limit := shape.max_position_embeddings):
        return []
    return [
        f"training.train.{name}.sequence_length: {settings.sequence_length:,} is more than the model's "
        f"max_position_embeddings {limit:,}: longer documents reach positions that it does not know; use {limit}"
    ]


def log_warnings(name: str, settings: Stage, steps: int, ranks: int, validation_rows: int | None = None) -> None:
    """Log what `schedule_warnings` says."""
    for line in schedule_warnings(name, settings, steps, ranks, validation_rows):
        logging.warning(f"warning: {line}")
