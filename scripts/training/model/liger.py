"""Liger's fused kernels for a stage: whether they run here, and for how long they stand in for transformers' own.

They are Triton kernels: RoPE, RMS norm, SwiGLU, and a loss that never holds the logits of a whole batch. Liger covers
Qwen2 and SmolLM3, the architectures that `base` makes, and many more.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from transformers import PreTrainedModel
from transformers.integrations import liger
from transformers.trainer_utils import unwrap_peft_model

from scripts.common.cli import UserError

# The fused loss reads the head's weight outside of the head's own forward pass: there it must be whole.
WHOLE = ("none", "zero1", "zero2")


def covered(model_type: str) -> bool:
    """Whether the installed Liger has kernels for this architecture."""
    from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN

    return model_type in MODEL_TYPE_TO_APPLY_LIGER_FN


def choose_liger(machine: dict, model_type: str) -> bool:
    """Whether Liger's kernels run: with `auto` on GPUs that hold whole weights, where the package knows the model.

    Raises:
        UserError: the machine file says `liger: true`, and they cannot run.
    """
    installed = importlib.util.find_spec("liger_kernel") is not None
    for obstacle, remedy in (
        (machine["gpus"] == 0, "needs GPUs"),
        (not installed, "needs the package: `uv pip install --group gpu`"),
        (installed and machine["gpus"] and not covered(model_type), f"has no kernels for {model_type}"),
    ):
        if obstacle and machine["liger"] is True:
            raise UserError(f"machine: `liger: true` {remedy}; or use `auto`, which leaves it off here")
        if obstacle:
            return False
    return machine["liger"] is True or (machine["liger"] == "auto" and machine["sharding"] in WHOLE)


@contextmanager
def liger_kernels(model: PreTrainedModel, on: bool) -> Iterator[None]:
    """Within, `model` (also below peft's adapters) runs Liger's kernels, if `on`.

    Liger puts its classes and functions into transformers' module too. Afterwards that is as it was: the saved model is
    loaded once more on the CPU, for the fingerprint of its logits, where Triton does not run.
    """
    names = vars(sys.modules[type(unwrap_peft_model(model)).__module__])
    stock = dict(names)
    if on:
        liger.apply_liger_kernel(model, None)
    try:
        yield
    finally:
        names.update(stock)
