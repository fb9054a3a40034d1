"""The plan of one stage, as results/training/plan/{stage}.json holds it; see scripts/training/plan.py.

plan(PlanInputs("sft", settings, machine, shape, rows=13_248))    # a dict
"""

import argparse
import logging
import math
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import yaml

from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json
from scripts.experiment.machine_files import load_machine, load_monitoring
from scripts.experiment.model_folder import Shape, shape_of_folder
from scripts.experiment.settings.machine import Machine, Monitoring
from scripts.experiment.settings.record import as_json
from scripts.experiment.settings.training import Stage
from scripts.training.planning.checks import check_choosable, check_trainable
from scripts.training.planning.choice import HEADROOM, Option, choose
from scripts.training.planning.choice import option as option_of
from scripts.training.planning.parameters import count_parameters, counts, layers_with_gradients
from scripts.training.planning.resolved_stage import (
    ResolvedStage,
    length_warnings,
    resolve_stage,
    rows_of_splits,
    schedule_warnings,
    split_rows,
    used_rows,
)
from scripts.training.planning.speed import stage_hours
from scripts.training.planning.states import GIB, model_states, stage_disk

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
    if stage.settings.global_batch_size == "auto":
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
    if inputs.known_shape is None or stage.settings.global_batch_size == "auto":
        return None
    return choose(inputs.name, stage.settings, inputs.known_shape, inputs.machine, stage.tokens)


def recomputed_text(option: Option) -> str:
    """How many layers are recomputed, what of the time that costs, and how much memory would free it."""
    machine, shape = option.machine, option.shape
    layers = layers_with_gradients(shape, counts(shape, option.settings))
    count = machine.recomputed(layers)
    if not count:
        return f"none of {layers}"
    text = f"{count} of {layers}"
    none = option_of(option.name, option.settings, shape, machine.model_copy(update={"gradient_checkpointing": False}))
    if option.speed and none.speed:
        text += f", {1 - none.speed.step / option.speed.step:.0%} of the time"
    lacking = none.missing(HEADROOM * (machine.gpu_memory_gib or 0) * GIB)
    if lacking > 0:
        text += f"; none with {lacking / GIB:.1f} GiB more"
    return text


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
    if machine.gpus and inputs.known_shape:
        result["recomputed_layers"] = recomputed_text(option)
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
    rows = split_rows(train, inputs.settings)
    batch, used = stage.settings.global_batch_size, used_rows(inputs.settings, rows)
    # the last step of a pass has the rows that are left
    full_passes, extra_steps = divmod(stage.steps, math.ceil(used / batch))
    passes = (full_passes * used + extra_steps * batch) / rows
    return {
        "parts": {
            name: {"tokens": round(part["tokens"] * passes), "epochs": round(part["epochs"] * passes, 4)}
            for name, part in train["parts"].items()
        }
    }


PLAN = "STAGECRAFT_PLAN"  # the environment variable by which the launcher hands the plan to the stage


def plan_inputs(machine: Machine, args: argparse.Namespace) -> PlanInputs:
    """The inputs of the plan of a stage whose data and origin exist."""
    adapter = read_json(args.origin / "manifest.json").get("adapter")
    folder = args.origin
    if adapter:
        folder = args.origin / adapter["base"]
    rows = rows_of_splits(read_json(args.shards / "manifest.json"), args.settings)
    # of SmolLM3, where 0 stands for a layer without RoPE
    layers = [layer for layer, on in enumerate(read_json(folder / "config.json").get("no_rope_layers") or []) if not on]
    settings, shape = with_layers(args.settings, layers), shape_of_folder(folder)
    return PlanInputs(args.stage, settings, machine, shape, *rows, load_monitoring(args.monitoring))


def plan_as_json(path: Path, args: argparse.Namespace) -> str:
    """The plan that a stage starts with, which goes into its summary.json; empty where it cannot be planned.

    What cannot be planned is not refused here: the stage itself says what is wrong.

    Args:
        path: of the machine file, without `auto`.
        args: of scripts/training/train.py.
    """
    machine = load_machine(path)
    with suppress(UserError):
        return as_json(plan(plan_inputs(machine, args)) | {"machine": path.stem})
    return ""


def without_auto(path: Path, args: argparse.Namespace) -> Path:
    """The machine file at `path`, or where it says `auto` a copy with what makes the stage fastest and fits.

    Args:
        args: of scripts/training/train.py; the copy goes to its work folder.

    Raises:
        UserError: nothing fits, or the model is of a kind that cannot be planned.
    """
    machine = load_machine(path)
    if "auto" not in (machine.sharding, machine.micro_batch_size, machine.gradient_checkpointing):
        return path
    option = choose_option(plan_inputs(machine, args))
    if option is None and "auto" not in (machine.sharding, machine.micro_batch_size):
        logging.info("auto: all layers are recomputed, as the model's memory cannot be planned")
        return written(machine.model_copy(update={"gradient_checkpointing": True}), path, args)
    if option is None:
        raise UserError(
            f"{path}: `auto` needs a model whose memory can be planned, as that of {args.origin} cannot; "
            "give `sharding` and `micro_batch_size`"
        )
    chosen = option.machine
    logging.info(
        f"auto: sharding {chosen.sharding}, offload {chosen.offload}, micro-batch {chosen.micro_batch_size}, recomputed"
        f" layers {recomputed_text(option)}"
    )
    return written(chosen, path, args)


def written(chosen: Machine, path: Path, args: argparse.Namespace) -> Path:
    """The copy of the machine file at `path` with the values that were chosen."""
    copy = args.work / f"machine-{path.stem}.yaml"
    with atomic(copy) as temporary:
        temporary.write_text(yaml.safe_dump(chosen.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
    return copy
