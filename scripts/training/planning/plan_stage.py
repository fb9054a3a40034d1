"""The plan of one stage, as results/training/plan/{stage}.json holds it; see scripts/training/plan.py.

plan(PlanInputs("sft", settings, machine, shape, rows=13_248))    # a dict
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from scripts.experiment.model_shape import Shape
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.monitoring import Monitoring
from scripts.experiment.settings.training import Stage
from scripts.training.planning.checks import check_choosable, check_trainable
from scripts.training.planning.choice import Option, choose
from scripts.training.planning.disk import stage_disk
from scripts.training.planning.memory import GIB, model_states
from scripts.training.planning.parameters import count_parameters, counts
from scripts.training.planning.resolved_stage import (
    ResolvedStage,
    length_warnings,
    resolve_stage,
    schedule_warnings,
    used_rows,
)
from scripts.training.planning.speed import stage_hours

VALIDATION_SHARE = 1 / 3  # of a training row's time: a forward pass alone


class PlanInputs(NamedTuple):
    """The inputs of a stage's plan."""

    name: str  # the stage's, for errors
    settings: Stage
    machine: Machine
    shape: Shape | None = None  # of the model; without it, or without its `vocab_size`, memory and speed are left out
    rows: int | None = None  # packed training rows, None before they are packed
    validation_rows: int | None = None
    monitoring: Monitoring = Monitoring()  # how often it logs and saves

    @property
    def known_shape(self) -> Shape | None:
        if self.shape and self.shape.vocab_size:
            return self.shape
        return None

    def resolve(self) -> ResolvedStage:
        """The stage's numbers, as far as they are known."""
        parameters = None
        if self.known_shape:
            parameters = count_parameters(self.known_shape)
        return resolve_stage(self.name, self.settings, self.machine, parameters, self.rows, monitoring=self.monitoring)


def with_layers(settings: Stage, no_rope_layers: Iterable[int]) -> Stage:
    """`settings` with the names of those layers' parameters in the place of `trainable: no_rope_layers`."""
    if settings.trainable != "no_rope_layers":
        return settings
    return settings.model_copy(update={"trainable": [f"model.layers.{layer}.*" for layer in no_rope_layers]})


def plan(inputs: PlanInputs) -> dict:
    """The plan of one stage, as plan/{stage}.json holds it. Raises UserError: the stage cannot run as its settings and
    the machine file say, does not fit, or trains nothing."""
    stage, shape = inputs.resolve(), inputs.known_shape
    check_choosable(inputs.machine)
    if shape:
        check_trainable(inputs.name, inputs.settings, shape)
    warnings = length_warnings(stage, shape)
    if stage.settings.global_batch == "auto":
        return stage.record() | {"warnings": warnings}
    if stage.steps:
        warnings += schedule_warnings(stage, inputs.validation_rows)
    option = choose_option(inputs)
    if option:
        stage = inputs._replace(machine=option.machine).resolve()
    result = stage.record() | {"warnings": warnings}
    if shape and stage.machine.sharding != "auto":
        disk = stage_disk(stage, shape)
        result |= {
            "parameters": count_parameters(shape),
            "trainable_parameters": counts(shape, inputs.settings).trained,
            "model_states_gib": round(sum(model_states(shape, inputs.settings, stage.machine)[:4]) / GIB, 2),
            "checkpoint_gib": round(disk.checkpoint / GIB, 2),
            "checkpoints_gib": round(disk.checkpoint * disk.checkpoints / GIB, 2),
            "published_gib": round(disk.published / GIB, 2),
        }
    if option:
        result |= memory_and_speed(inputs, stage, option)
    return result


def choose_option(inputs: PlanInputs) -> Option | None:
    """Sharding, offload and micro-batch, chosen or checked; None without a shape. Raises UserError: nothing that the
    machine file allows fits; the table says what would."""
    stage = inputs.resolve()
    if inputs.known_shape is None or stage.settings.global_batch == "auto":
        return None
    return choose(inputs.name, stage.settings, inputs.known_shape, inputs.machine, stage.tokens)


def memory_and_speed(inputs: PlanInputs, stage: ResolvedStage, option: Option) -> dict:
    """The part of the plan that is about one option: memory part by part, speed, hours."""
    machine, settings, steps = stage.machine, stage.settings, stage.steps
    budget, speed = option.budget, option.speed
    result = {
        "gpu_parts_gib": {part: round(value / GIB, 2) for part, value in budget.gpu.items()} if machine.gpus else {},
        "gpu_gib": round(budget.total / GIB, 2) if machine.gpus else None,
        "host_total_gib": round(sum(budget.host.values()) / GIB, 2),
        "peak": budget.peak,
    }
    if speed is None:
        return result
    result["tokens_per_second"] = round(speed.tokens_per_second, 1)
    if speed.mfu is not None:
        result["mfu"] = round(speed.mfu, 4)
    if steps:
        rows = min(settings.eval_rows, inputs.validation_rows or settings.eval_rows)
        scored = steps // stage.eval_every * rows * settings.sequence_length
        hours = stage_hours(speed, steps, scored / speed.tokens_per_second * VALIDATION_SHARE)
        result |= {"seconds": float(f"{3600 * hours:.4g}"), "hours": round(hours, 2)}
    return result


def part_plans(train: dict, inputs: PlanInputs) -> dict:
    """`parts` of the plan of a stage on a mixture: tokens and epochs of each over all steps; empty for a dataset.

    Args:
        train: the counts of the training split in the shards' manifest.

    Returns:
        {"parts": {part: {"tokens": without padding, "epochs": over its own rows}}}; both are averages, as the last pass
        over the mixture may end early.
    """
    stage = inputs.resolve()
    if "parts" not in train or not stage.steps or not train["rows"]:
        return {}
    batch, used = stage.settings.global_batch, used_rows(inputs.settings, train["rows"])
    # the last step of a pass has the rows that are left
    full_passes, extra_steps = divmod(stage.steps, math.ceil(used / batch))
    passes = (full_passes * used + extra_steps * batch) / train["rows"]
    return {
        "parts": {
            name: {"tokens": round(part["tokens"] * passes), "epochs": round(part["epochs"] * passes, 4)}
            for name, part in train["parts"].items()
        }
    }
