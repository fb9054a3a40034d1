"""The cost of `gradient_checkpointing`: the share of layers computed twice, activations in host memory."""

from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.planning.batch import Batch


def recomputed_share(shape: Shape, machine: Machine) -> float:
    """The share of the layers whose forward pass is repeated in the backward pass."""
    recomputed = machine.gradient_checkpointing
    return -(-shape.num_hidden_layers // recomputed.every_n_layers) / shape.num_hidden_layers if recomputed else 0


def offloaded_activations(settings: Stage, shape: Shape, machine: Machine, batch: Batch, layers: int) -> float:
    """Bytes of host memory per process that `gradient_checkpointing.offload` fills in one pass.

    Args:
        layers: number of layers through which gradients flow.
    """
    recomputed = machine.gradient_checkpointing
    if not recomputed or not recomputed.offload:
        return 0
    wide = 2 if settings.precision == "bf16" else 4
    inputs = -(-layers // recomputed.every_n_layers)
    return inputs * batch.micro * settings.sequence_length * shape.hidden_size * wide
