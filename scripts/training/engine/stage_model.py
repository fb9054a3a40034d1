"""Load the model that a stage trains: plain or with adapters, its logits checked, and with frozen parameters."""

from pathlib import Path

import torch
from transformers import PreTrainedModel, TrainingArguments

from scripts.experiment.settings.training import Stage
from scripts.training.engine.parallel import whole_model_loading
from scripts.training.model import logits_fingerprint
from scripts.training.model.loading import load_model
from scripts.training.model.lora import load_with_adapters
from scripts.training.model.nope import no_rope_parameters
from scripts.training.optimization.optimizers import freeze_others


def load_stage_model(
    name: str, settings: Stage, seed: int, origin: Path, attention: str, arguments: TrainingArguments
) -> PreTrainedModel:
    """Load the model in `origin`; the first rank checks that it loads as it was saved.

    Args:
        name: the stage's, for errors.
        attention: name of the attention kernel.

    Raises:
        UserError: the model is not the one that was saved, or lacks layers or parameters that the stage trains.
    """
    if settings.method == "lora":
        model = load_with_adapters(name, settings, seed, origin, arguments.device, attn_implementation=attention)
    else:
        model = load_model(origin, torch.float32, attn_implementation=attention)
    if arguments.process_index == 0:
        with whole_model_loading(arguments):
            logits_fingerprint.check(model, origin)
    if settings.trainable != "all":
        selected = settings.trainable
        freeze_others(model, no_rope_parameters(model) if selected == "no_rope_layers" else selected)
    return model
