"""Memory and disk of a stage's model states (weights, gradients, optimizer moments), by formulas."""

import math
from typing import NamedTuple

from scripts.experiment.model_folder import Shape
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.planning.parameters import (
    Counts,
    count_parameters,
    counts,
    embedding_parameters,
    layer_parameters,
)
from scripts.training.planning.resolved_stage import ResolvedStage, local_ranks, total_ranks

GIB = 2**30


class Split(NamedTuple):
    """Bytes per parameter: whole on each GPU, divided among all GPUs, divided in host memory."""

    replicated: float = 0
    divided: float = 0
    host: float = 0


# Weights of all parameters; master copies and gradients of the trained ones. DDP and, divided, FSDP2 hold weights and
# gradients in fp32; ZeRO both in the precision of compute (here bf16), and an fp32 copy of both. ZeRO-2
# and ZeRO-3 agree with DeepSpeed's own estimate.
WEIGHTS = {
    "none": Split(replicated=4),
    "fsdp2": Split(divided=4),
    "zero2": Split(replicated=2),
    "zero3": Split(divided=2),
}
MASTER = {"none": Split(), "fsdp2": Split(), **dict.fromkeys(("zero2", "zero3"), Split(divided=4))}
GRADIENTS = {
    "none": Split(replicated=4),
    "fsdp2": Split(divided=4),
    "zero2": Split(divided=6),
    "zero3": Split(divided=4),  # its bf16 gradients live in the buckets
}
# with `offload` fp32 copies and moments are in host memory; ZeRO-2's and ZeRO-3's gradients go there at once
OFFLOADED_MASTER = Split(host=4)
OFFLOADED_GRADIENTS = {"zero2": Split(host=4), "zero3": Split(host=4)}
# ZeRO-3 keeps up to 1e9 gathered bf16 parameters alive (stage3_max_live_parameters in config/deepspeed/zero3.json).
ZERO3_LIVE_PARAMETERS = 1e9
# DeepSpeed's buckets, in values of the gradients' type (config/deepspeed): gradients to reduce, twice as one is filled
# while the other is sent, and gathered weights. ZeRO-3 takes hidden_size² in place of the number.
BUCKET = 5e8
# NF4 with double quantization takes 4.127 bits per weight (Dettmers et al. 2023)
QUANTIZED = {"8bit": 1.0, "4bit": 4.127 / 8}


class States(NamedTuple):
    """Bytes of the model states, part by part, per GPU; and the host's share."""

    weights: float
    gradients: float
    optimizer: float  # moments, and the fp32 copy of the weights under ZeRO
    gathered: float
    buckets: float
    host: float


def largest_layer(shape: Shape) -> int:
    """Parameters of the largest single layer: the embedding or a matrix."""
    return max(shape.vocab_size * shape.hidden_size, shape.hidden_size * shape.intermediate_size)


def largest_fsdp_unit(shape: Shape) -> int:
    """Parameters of the largest unit that FSDP2 gathers: the embedding, or a decoder layer and the last norm."""
    decoder_layer = layer_parameters(shape) // shape.num_hidden_layers + shape.hidden_size
    return max(shape.vocab_size * shape.hidden_size, decoder_layer)


def frozen_bytes(shape: Shape, settings: Stage) -> float:
    """Bytes of the frozen weights under LoRA: only the layers' matrices are quantized, embeddings and head are not."""
    bytes_per_weight = 2 if settings.precision == "bf16" else 4
    return embedding_parameters(shape) * bytes_per_weight + layer_parameters(shape) * QUANTIZED.get(
        settings.quantize, bytes_per_weight
    )


def gathered_bytes(shape: Shape, counted: Counts, machine: Machine) -> float:
    """Bytes of weights that a GPU holds for a while, out of those that are divided."""
    if machine.sharding == "zero3":
        return max(4 * largest_layer(shape), 2 * min(ZERO3_LIVE_PARAMETERS, counted.all))
    if machine.sharding == "fsdp2":
        # this unit and the next in bf16, the gradient of one before it is reduced
        return (2 * 2 + 4) * largest_fsdp_unit(shape)
    return 0


def bucket_bytes(shape: Shape, counted: Counts, machine: Machine) -> float:
    """Bytes of the buffers through which gradients are reduced and weights gathered."""
    if machine.sharding == "none":
        return 4 * counted.trained if total_ranks(machine) > 1 else 0  # DDP's buckets hold every gradient once more
    if machine.sharding == "zero3":
        return 2 * 2 * min(shape.hidden_size**2, counted.trained)
    if machine.sharding.startswith("zero"):
        return 3 * 2 * min(BUCKET, counted.trained)
    return 0


def model_states(shape: Shape, settings: Stage, machine: Machine) -> States:
    """The model states of a stage.

    The host holds offloaded states, divided among the hosts, or while loading an fp32 copy of the weights per process
    (ZeRO-3 loads shard by shard), whichever is more.
    """
    counted, ranks = counts(shape, settings), total_ranks(machine)
    sharding, trained = machine.sharding, counted.trained
    master = OFFLOADED_MASTER if machine.offload else MASTER[sharding]
    gradients = (OFFLOADED_GRADIENTS if machine.offload else GRADIENTS)[sharding]
    moments = OPTIMIZERS[settings.optimizer].state_bytes(counted.trained, counted.matrices, counted.head)
    weights = WEIGHTS[sharding]
    share = 1 if sharding == "none" else 1 / ranks
    lora = settings.method == "lora"
    if lora:  # the adapters are held in fp32
        frozen = frozen_bytes(shape, settings) * (1 if weights.replicated else share)
        weight_bytes = frozen + (weights.replicated + weights.divided * share) * trained
    else:
        weight_bytes = (weights.replicated + weights.divided * share) * counted.all
    host = 0
    if machine.offload:
        host = (master.host + gradients.host) * trained + moments
    per_weight = 4
    if lora and settings.precision == "bf16":
        per_weight = 2
    copies = local_ranks(machine)
    if sharding == "zero3":
        loading = 4 * largest_layer(shape) * copies
    else:
        loading = per_weight * counted.all * copies
    return States(
        weights=weight_bytes,
        gradients=(gradients.replicated + gradients.divided * share) * trained,
        optimizer=master.divided * share * trained + (0 if machine.offload else moments * share),
        gathered=gathered_bytes(shape, counted, machine),
        buckets=bucket_bytes(shape, counted, machine),
        host=max(host / machine.nodes, loading),
    )


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
    return Disk(checkpoint_size, checkpoints_at_once(stage), published * stage.weight_copies)


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
