"""Disk that a stage's checkpoints and its model take, by closed forms."""

import math

from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage


def weight_bytes(settings: Stage, machine: Machine) -> int:
    """Bytes per saved weight: DeepSpeed saves weights in the precision of compute, DDP and FSDP2 in fp32."""
    return 2 if machine.sharding.startswith("zero") and settings.precision == "bf16" else 4


def saved_parameters(settings: Stage, parameters: int, trained: int) -> int:
    """Of LoRA the adapters alone are saved."""
    return trained if settings.method == "lora" else parameters


def checkpoint_bytes(settings: Stage, machine: Machine, parameters: int, trained: int, moments: float) -> float:
    """Bytes of one checkpoint, all ranks together: the model as transformers saves it, and the optimizer's moments.

    DeepSpeed saves its fp32 copy of the trained weights too, and with ZeRO-1 and ZeRO-2 its module.

    Args:
        parameters, trained: how many the model has, and how many of them are trained.
        moments: bytes of the optimizer's moments.
    """
    weights = saved_parameters(settings, parameters, trained) * weight_bytes(settings, machine)
    if machine.sharding.startswith("zero"):
        return (1 if machine.sharding == "zero3" else 2) * weights + 4 * trained + moments
    return weights + moments


def checkpoints_at_once(settings: Stage, steps: int | None) -> int:
    """The most checkpoints that lie on the disk at the same time: those kept, the best one, the one being written.

    Args:
        steps: of the stage; None where they are not known, and may be many.
    """
    most = settings.keep_checkpoints + settings.keep_best + 1
    if steps is None:
        return most
    saves = math.ceil(steps / settings.save_steps)
    if settings.keep_best:
        saves += math.ceil(steps / settings.eval_steps)
    return min(most, saves)
