"""Compare the disk that a stage's checkpoints and model need with what is free, before its first step."""

from pathlib import Path

import torch
from torch import nn

from scripts.common.disk import free_bytes, size_text
from scripts.common.errors import UserError
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.training.engine.pruning import checkpoints_of, folder_bytes
from scripts.training.optimization.parameters import full_shape, split_parameters
from scripts.training.planning.disk import checkpoint_bytes, checkpoints_at_once, saved_parameters, weight_bytes
from scripts.training.planning.resolved_stage import ResolvedStage


def state_bytes(model: nn.Module, optimizer: str) -> float:
    """Bytes of the optimizer's state for the trained parameters of `model`."""
    parts = split_parameters(model)
    head = model.get_output_embeddings().weight
    outside = parts["decayed"] + parts["undecayed"]
    own_head = head is not model.get_input_embeddings().weight and any(parameter is head for parameter in outside)
    matrices = count(parts["muon"])
    return OPTIMIZERS[optimizer].state_bytes(matrices + count(outside), matrices, count([head] if own_head else []))


def count(parameters) -> int:
    """How many numbers the parameters hold, also those that ZeRO-3 has left on other ranks."""
    return sum(torch.Size(full_shape(parameter)).numel() for parameter in parameters)


def check_disk_space(stage: ResolvedStage, model: nn.Module, origin: dict, work: Path) -> None:
    """Check that checkpoints and the published model of a stage fit on the disk of `work`.

    Args:
        origin: manifest of the model that the stage starts from.
        work: the run's folder; checkpoints that already lie there are counted in.

    Raises:
        UserError: they do not fit.
    """
    settings, machine = stage.settings, stage.machine
    trained = count(parameter for parameter in model.parameters() if parameter.requires_grad)
    parameters = count(model.parameters())
    size = checkpoint_bytes(settings, machine, parameters, trained, state_bytes(model, settings.optimizer))
    if settings.method == "lora" and settings.lora.merge:
        published = sum(file["bytes"] for file in origin["files"].values())
    else:
        published = saved_parameters(settings, parameters, trained) * weight_bytes(settings, machine)
    number = checkpoints_at_once(stage)
    present = sum(folder_bytes(folder) for folder in checkpoints_of(work))
    needed, free = number * size + published - present, free_bytes(work)
    if needed > free:
        raise UserError(
            f"training.train.{stage.name}: {number} checkpoints of {size_text(size)} and a model of"
            f" {size_text(published)} need {size_text(needed)} more in {work}, {size_text(free)} are free;"
            " make space there, or lower `keep_checkpoints`"
        )
