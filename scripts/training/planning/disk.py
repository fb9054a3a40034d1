"""The disk space that a stage's checkpoints and its model need, from formulas."""

import math
from typing import NamedTuple

from scripts.experiment.model_shape import Shape
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.planning.parameters import count_parameters, counts
from scripts.training.planning.resolved_stage import ResolvedStage


def weight_bytes(settings: Stage, machine: Machine) -> int:
    """Bytes per saved weight: DeepSpeed saves weights in the precision of compute, DDP and FSDP2 in fp32."""
    if machine.sharding.startswith("zero") and settings.precision == "bf16":
        return 2
    return 4


def saved_parameters(settings: Stage, parameters: int, trained: int) -> int:
    """Of LoRA the adapters alone are saved."""
    if settings.method == "lora":
        return trained
    return parameters


def checkpoint_bytes(settings: Stage, machine: Machine, parameters: int, trained: int, moments: float) -> float:
    """Bytes of one checkpoint, all ranks together: the model as transformers saves it, and the optimizer's moments.

    DeepSpeed saves its fp32 copy of the trained weights too, and with ZeRO-2 its module.

    Args:
        parameters, trained: how many the model has, and how many of them are trained.
        moments: bytes of the optimizer's moments.
    """
    weights = saved_parameters(settings, parameters, trained) * weight_bytes(settings, machine)
    if machine.sharding.startswith("zero"):
        return (1 if machine.sharding == "zero3" else 2) * weights + 4 * trained + moments
    return weights + moments


def checkpoints_at_once(stage: ResolvedStage) -> int:
    """The most checkpoints that lie on the disk at the same time: those kept, the best one, the one being written."""
    settings = stage.settings
    limit = stage.keep_checkpoints + settings.keep_best + 1
    if stage.steps is None:
        return limit
    saves = math.ceil(stage.steps / stage.save_every)
    if settings.keep_best:
        saves += math.ceil(stage.steps / stage.eval_every)
    return min(limit, saves)


class Disk(NamedTuple):
    """Bytes on the disk of a stage's work folder."""

    checkpoint: float  # one, the states of all ranks
    checkpoints: int  # checkpoints at the same time: those kept, the best one, the one being written
    published: float


def stage_disk(stage: ResolvedStage, shape: Shape) -> Disk:
    """What a stage's checkpoints and its model take, before either exists."""
    settings, machine = stage.settings, stage.machine
    counted, parameters = counts(shape, settings), count_parameters(shape)
    moments = OPTIMIZERS[settings.optimizer].state_bytes(counted.trained, counted.matrices, counted.head)
    checkpoint_size = checkpoint_bytes(settings, machine, parameters, counted.trained, moments)
    published = saved_parameters(settings, parameters, counted.trained) * weight_bytes(settings, machine)
    if settings.method == "lora" and settings.lora.merge:
        published = 2 * parameters
    return Disk(checkpoint_size, checkpoints_at_once(stage), published)


def disk_warning(stage: ResolvedStage, planned: dict, free_gib: float) -> list[str]:
    """A line, if the checkpoints and the model of a plan are more than the free disk; the stage checks again."""
    if "checkpoint_gib" not in planned:
        return []
    needed = planned["checkpoints_gib"] + planned["published_gib"]
    if needed <= free_gib:
        return []
    kept = int((free_gib - planned["published_gib"]) // planned["checkpoint_gib"]) - 1 - stage.settings.keep_best
    remedy = "make space there"
    if kept >= 1:
        remedy = f"`keep_checkpoints: {kept}` fits"
    return [
        f"{stage.name}: the monitoring file's keep_checkpoints: {stage.keep_checkpoints} and one being written, of "
        f"{planned['checkpoint_gib']:,} GiB each, and the model need {needed:,.0f} GiB, "
        f"{free_gib:,.0f} are free; {remedy}"
    ]
