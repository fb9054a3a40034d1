"""Warnings about a stage's schedule and data: settings by which it shows, keeps or knows too little.

schedule_warnings(stage, validation_rows=100)    # one line each, with a value that would do
"""

from scripts.experiment.model_shape import Shape
from scripts.training.planning.resolved_stage import ResolvedStage, interval

ENOUGH = 20  # evaluations and logged metrics in a stage, below which a curve shows little


def schedule_warnings(stage: ResolvedStage, validation_rows: int | None = None) -> list[str]:
    """One line for each setting by which a stage with known steps shows or keeps too little, with what would do.

    Args:
        validation_rows: packed ones, scored by all processes together; None before they are packed.
    """
    steps, ranks, key, lines = stage.steps, stage.processes, f"training.train.{stage.name}", []
    enough = interval(1 / ENOUGH, steps)
    evaluations = (f"{key}.eval_steps", "evaluations", stage.eval_every)
    logged = (f"{stage.name}: the monitoring file's log_steps", "logged metrics", stage.log_every)
    for setting, results, every in (evaluations, logged):
        if every > enough and (setting == logged[0] or validation_rows != 0):
            lines.append(
                f"{setting}: {every:,} gives {steps // every} {results} in {steps:,} steps; "
                f"{enough:,}, or a share of {1 / ENOUGH}, would give {steps // enough}"
            )
    if stage.save_every >= steps > 1:
        saved = interval(0.1, steps)
        lines.append(
            f"{stage.name}: the monitoring file's save_steps: {stage.save_every:,} makes no checkpoint before the end"
            f" of {steps:,} steps, so a killed job starts at step 0; {saved:,}, or a share of 0.1, would make"
            f" {steps // saved}"
        )
    eval_rows = stage.settings.eval_rows
    if eval_rows < ranks:
        lines.append(f"{key}.eval_rows: {eval_rows} leaves some of the {ranks} processes none; use {ranks}")
    elif validation_rows == 0:
        lines.append(f"{key}.data: no validation rows, so no validation loss is measured; make `validation` larger")
    elif validation_rows and validation_rows < ranks:
        lines.append(
            f"{key}.data: {validation_rows} validation rows leave some of the {ranks} processes none; "
            f"make `validation` {ranks / validation_rows:.1f} times as large, or use fewer GPUs"
        )
    return lines


def length_warnings(stage: ResolvedStage, shape: Shape | None) -> list[str]:
    """One line if rows are longer than what the model was made for; a row is as long as its longest document may be."""
    length = stage.settings.sequence_length
    if shape is None or length <= shape.max_position_embeddings:
        return []
    limit = shape.max_position_embeddings
    return [
        f"training.train.{stage.name}.sequence_length: {length:,} is more than the model's "
        f"max_position_embeddings {limit:,}: longer documents reach positions that it does not know; use {limit}"
    ]
