"""Load the model that a stage trains: plain or with adapters, and with frozen parameters."""

from fnmatch import fnmatch
from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel, TrainingArguments

from scripts.common.errors import UserError
from scripts.experiment.settings.training import Stage
from scripts.training.model.loading import load_model
from scripts.training.model.lora import load_with_adapters
from scripts.training.model.nope import no_rope_parameters


def load_stage_model(
    name: str, settings: Stage, seed: int, origin: Path, attention: str, arguments: TrainingArguments
) -> PreTrainedModel:
    """Load the model in `origin`.

    Args:
        name: the stage's, for errors.
        attention: name of the attention kernel.

    Raises:
        UserError: the model lacks layers or parameters that the stage trains.
    """
    if settings.method == "lora":
        model = load_with_adapters(name, settings, seed, origin, arguments.device, attn_implementation=attention)
    else:
        model = load_model(origin, torch.float32, attn_implementation=attention)
    if settings.trainable != "all":
        selected = settings.trainable
        freeze_others(model, no_rope_parameters(model) if selected == "no_rope_layers" else selected)
    return model


def freeze_others(model: nn.Module, patterns: list[str]) -> list[str]:
    """Train only the parameters whose names match one of `patterns` (fnmatch); returns these names."""
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise UserError(f"trainable: {pattern!r} matches no parameter; an example of a name: {names[1]!r}")
    trained = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    return trained
