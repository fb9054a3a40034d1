"""Liger's fused kernels for a stage: whether they can run here, and running a model with them.

They are Triton kernels: RoPE, RMS norm, SwiGLU. Liger supports Qwen2 and SmolLM3, the architectures that `base` makes,
and many more. Its loss, which holds no whole batch of logits either, runs only for models that compute their loss
themselves, as those that cap their logits; all others use chunked_loss.py.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel
from transformers.integrations import liger
from transformers.trainer_utils import unwrap_peft_model

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine
from scripts.training.model import kernels
from scripts.training.model.attention import log_choice


def has_kernels(model_type: str) -> bool:
    """Whether the installed Liger has kernels for this architecture."""
    from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

    return model_type in MODEL_TYPE_TO_APPLY_LIGER_FN


def choose_liger(machine: Machine, model_type: str) -> bool:
    """Whether to run Liger's kernels: with `auto` on GPUs that hold whole weights, if the package supports the model.
    Raises UserError: `liger: true` in the machine file, and they cannot run."""
    installed = importlib.util.find_spec("liger_kernel") is not None
    known = installed and machine.gpus > 0 and has_kernels(model_type)
    choice = kernels.choose_liger(machine, installed, known)
    if choice.name == "off" and machine.liger is True:
        reason = choice.reason.replace("this architecture", model_type)
        raise UserError(f"machine: `liger: true` {reason}; or use `auto`, which leaves it off here")
    log_choice("Liger", choice)
    return choice.name == "on"


@contextmanager
def liger_kernels(model: PreTrainedModel, on: bool, loss: bool) -> Iterator[None]:
    """Within, `model` (also below peft's adapters) runs Liger's kernels, if `on`; its loss, too, if `loss`.

    Liger also replaces classes and functions of transformers' module. They are restored at the end: what the process
    loads later, on the CPU, cannot run Triton.
    """
    names = vars(sys.modules[type(unwrap_peft_model(model)).__module__])
    originals = dict(names)
    if on:
        liger.apply_liger_kernel(model, {"fused_linear_cross_entropy": loss, "cross_entropy": False})
    try:
        yield
    finally:
        names.update(originals)
