"""Compile each layer of a model with torch.compile, on GPUs: fewer and larger kernels than eager PyTorch's.

    if choose_compile(machine, settings):
        compile_layers(model)

Layers share their code, so one graph is compiled for all of them, which takes seconds. Packed rows have a different
number of documents in each batch. The length of their offsets is marked as dynamic, and the longest document is given
as the length of a row, as otherwise each batch would compile a graph of its own.
"""

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.model import kernels
from scripts.training.model.attention import log_choice


def choose_compile(machine: Machine, settings: Stage) -> bool:
    """Whether to compile a stage's layers; a choice against it is logged. Raises UserError: `compile: true` in the
    machine file, and there is no C compiler, or the weights are held in 8 bits."""
    choice = kernels.choose_compile(machine, settings.quantize)
    if machine.compile is True and choice.name == "off":
        raise UserError(f"machine: `compile: true` {choice.reason}; or use `auto`, which leaves it off here")
    log_choice("compile", choice)
    return choice.name == "on"


def with_constant_length(module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments of the model's forward pass, such that the graph compiled for one batch is right for all."""
    offsets = kwargs.get("cu_seq_lens_q")
    if offsets is not None and "input_ids" in kwargs:
        torch._dynamo.maybe_mark_dynamic(offsets, 0)
        length = kwargs["input_ids"].shape[1]
        kwargs |= {"max_length_q": length, "max_length_k": length}  # the flash kernel takes any upper bound
    return args, kwargs


def compile_layers(model: PreTrainedModel) -> int:
    """Let each layer of `model` (also below peft's adapters) run compiled from here on; returns how many.

    They are compiled when they first run. What the compiler cannot make runs as it is, with a warning. A recomputed
    layer is compiled, too. The names of weights stay the same.
    """
    torch._dynamo.config.suppress_errors = True
    torch._dynamo.config.optimize_ddp = False  # it would cut layers at the sizes of DDP's buckets
    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    for layer in layers:
        layer.compile()
    model.get_decoder().register_forward_pre_hook(with_constant_length, with_kwargs=True)
    return len(layers)
