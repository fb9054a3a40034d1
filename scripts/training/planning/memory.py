"""Memory of a stage's model states (weights, gradients, optimizer moments) per GPU and per host, by closed forms."""

from typing import NamedTuple

from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.planning.batch import local_ranks, total_ranks
from scripts.training.planning.parameters import (
    adapter_parameters,
    count_parameters,
    embedding_parameters,
    head_parameters,
    layer_parameters,
    matrix_parameters,
)

GIB = 2**30
# bytes per parameter that each GPU holds whole, and bytes per parameter that are divided among all GPUs, moments left
# out (`moment_bytes`; DDP holds them whole): fp32 weights and gradients with DDP and, divided, with FSDP2; with ZeRO
# bf16 weights and gradients, and an fp32 copy of both. ZeRO-1 keeps its bf16 gradients whole (ZeRO paper, table 1:
# 4 + 12/N, and 4/N for the fp32 copy of gradients that DeepSpeed makes). ZeRO-2 and ZeRO-3 agree with DeepSpeed's own
# estimate.
BYTES = {"none": (8, 0), "fsdp2": (0, 8), "zero1": (4, 8), "zero2": (2, 10), "zero3": (0, 10)}
# with `offload` all of the fp32 copies and the moments are in host memory, and reduced gradients go there at once
OFFLOADED = {"zero1": (4, 0), "zero2": (2, 0), "zero3": (0, 2)}
HOST_BYTES = 8
# ZeRO-3 keeps up to 1e9 gathered bf16 parameters alive (stage3_max_live_parameters in config/deepspeed/zero3.json).
ZERO3_LIVE_PARAMETERS = 1e9


class StateMemory(NamedTuple):
    """Memory of model states in bytes."""

    per_process: float  # on the GPU; on a machine without GPUs in host memory
    per_host: float


def moment_bytes(shape: Shape, optimizer: str) -> float:
    """Bytes of an optimizer's moments for all parameters; AdamW has two in fp32 for each.

    Muon has one in fp32 for the layers' matrices. adamw_8bit has two of one byte, each with a scale per 256 weights,
    for all matrices but the embedding. (With bf16 DeepSpeed's ZeRO-2 and ZeRO-3 hold Muon's in bf16: half.)
    """
    adamw = 8 * count_parameters(shape)
    if optimizer == "muon":
        return adamw - 4 * matrix_parameters(shape)
    if optimizer == "adamw_8bit":
        return adamw - (8 - 2 * (1 + 4 / 256)) * (matrix_parameters(shape) + head_parameters(shape))
    return adamw


def lora_memory(shape: Shape, settings: Stage) -> float:
    """Bytes per GPU of a LoRA stage: frozen weights, and adapters with gradients and two moments in fp32.

    Only the layers' matrices are quantized; embeddings, head and norms stay in the precision of compute.
    """
    plain = 2 if settings.precision == "bf16" else 4
    # NF4 with double quantization takes 4.127 bits per weight (Dettmers et al. 2023)
    per_weight = {"none": plain, "8bit": 1, "4bit": 4.127 / 8}[settings.quantize]
    frozen = embedding_parameters(shape) * plain + layer_parameters(shape) * per_weight
    return frozen + 16 * adapter_parameters(shape, settings.lora)


def largest_layer(shape: Shape) -> int:
    """Parameters of the largest single layer: the embedding or a matrix."""
    return max(shape.vocab_size * shape.hidden_size, shape.hidden_size * shape.intermediate_size)


def largest_fsdp_unit(shape: Shape) -> int:
    """Parameters of the largest unit that FSDP2 gathers: the embedding, or a decoder layer and the last norm."""
    decoder_layer = layer_parameters(shape) // shape.num_hidden_layers + shape.hidden_size
    return max(shape.vocab_size * shape.hidden_size, decoder_layer)


def full_training_memory(shape: Shape, machine: Machine, optimizer: str) -> StateMemory:
    """Model states of full training: weights, gradients, moments, and gathered weights; no activations.

    The host holds offloaded states, divided among the hosts, or while loading an fp32 copy of the weights per process,
    whichever is more. (ZeRO-3 loads shard by shard.)
    """
    count, sharding, moments = count_parameters(shape), machine.sharding, moment_bytes(shape, optimizer)
    replicated, divided = (OFFLOADED if machine.offload else BYTES)[sharding]
    states = count * replicated + count * divided / total_ranks(machine)
    if not machine.offload:
        states += moments if sharding == "none" else moments / total_ranks(machine)
    layer, unit = largest_layer(shape), largest_fsdp_unit(shape)
    if sharding == "zero3":
        states += max(4 * layer, 2 * min(ZERO3_LIVE_PARAMETERS, count))
    elif sharding == "fsdp2":
        states += 2 * (2 * unit) + 4 * unit  # this unit and the next in bf16, the gradient of one before it is reduced
    ranks = local_ranks(machine)
    host = 4 * layer * ranks if sharding == "zero3" else 4 * count * ranks
    if machine.offload:
        host = max(host, (HOST_BYTES * count + moments) / machine.nodes)
    return StateMemory(states, host)
