"""How long a stage takes: operations, communication, time.

Operations per token follow the causal convention: attention counts the half of the scores that are computed. An MFU
that counts all of them (as torchtitan's, nanotron's and LLM-Foundry's) is higher.
Recomputation under checkpointing is work, but never part of an MFU.

A machine file's `mfu` is that of matrices as wide as a 7B model's. Narrow ones are slower, as each number that is read
is used in fewer products, and attention is slower than matrices: ATTENTION and NARROW. Both were chosen on 117 rows of
LLM-Foundry, from 125 million to 30 billion parameters and 2,048 to 65,536 tokens (benchmarks/published_speeds.tsv).
"""

from typing import NamedTuple

from scripts.experiment.model_folder import Shape
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.planning.parameters import Counts, counts, passed_parameters, query_width
from scripts.training.planning.resolved_stage import Batch, total_ranks

# Share of a pass' time behind which communication can hide. DDP, ZeRO and FSDP send while the backward pass runs.
OVERLAP = 0.5
ATTENTION = 0.4  # rate of the attention kernel, as a share of that of wide matrices
NARROW, WIDE = 400, 4096  # a model of the width NARROW runs its matrices at half the rate of infinitely wide ones
HOST_ADAM = 2e9  # parameters per second that AdamW updates on a host's CPU, for `offload`
HOST_LINK = 12e9  # bytes per second between a GPU and its host, of PCIe 4.0


class Operations(NamedTuple):
    """Floating-point operations per token."""

    model: float  # what the mathematics needs: the numerator of an MFU
    recomputed: float  # forward once more under checkpointing
    attention: float  # of both, what attention does


class Speed(NamedTuple):
    """Per optimizer step, in seconds, unless it says otherwise."""

    compute: float
    communication: float  # only what does not overlap with compute
    offload: float
    tokens_per_second: float  # of all GPUs
    mfu: float | None  # causal, of the whole step; None without a GPU, as there is no peak to compare with

    @property
    def step(self) -> float:
        return self.compute + self.communication + self.offload


def attention_operations(shape: Shape, length: int) -> float:
    """Operations per token and forward pass of all layers' scores and sums: 4 x width x positions looked at."""
    return 4 * shape.num_hidden_layers * query_width(shape) * length / 2


def matrix_parameters(shape: Shape) -> float:
    """Parameters that every token is multiplied with: layers and head, tied or not, but no embedding."""
    return passed_parameters(shape) + shape.vocab_size * shape.hidden_size


def operations(shape: Shape, settings: Stage, counted: Counts, recomputed: int) -> Operations:
    """The operations of a stage per token of a packed row; documents' bounds inside a row are not counted as a saving.

    A frozen weight has no gradient of its own (2 operations per token less), and nothing flows back below the first
    trained layer. `recomputed`: layers, the first ones.
    """
    scores = attention_operations(shape, settings.sequence_length)
    forward = 2 * matrix_parameters(shape) + scores
    share = 1 - counted.first_layer / shape.num_hidden_layers
    through = 2 * (passed_parameters(shape) * share + shape.vocab_size * shape.hidden_size)
    backward = through + 2 * scores * share
    updates = 2 * min(counted.trained, matrix_parameters(shape))
    extra = 4 * counted.trained if settings.method == "lora" else 0  # forward and backward through the adapters
    repeated = min(recomputed, shape.num_hidden_layers - counted.first_layer) / shape.num_hidden_layers
    return Operations(
        model=forward + backward + updates + extra,
        recomputed=(2 * passed_parameters(shape) + scores) * repeated,
        attention=scores * (1 + 2 * share + repeated),
    )


def gpu_seconds(work: Operations, shape: Shape, machine: Machine) -> float:
    """Seconds per token that a GPU computes."""
    rate = machine.gpu_tflops * 1e12 * machine.mfu
    width = shape.hidden_size
    matrix_rate = rate * width / (width + NARROW) * (WIDE + NARROW) / WIDE
    return (work.model + work.recomputed - work.attention) / matrix_rate + work.attention / (rate * ATTENTION)


def bandwidth(machine: Machine) -> float:
    """Bytes per second and direction at which a GPU takes part in a ring over all GPUs."""
    within_host = machine.link_gbs * 1e9
    if machine.nodes == 1:
        return within_host
    return min(within_host, machine.network_gbs * 1e9)


def bytes_sent(counted: Counts, machine: Machine, accumulation: int) -> float:
    """Bytes that each GPU sends per optimizer step.

    DDP reduces once per step (a ring sends twice the bytes, less one part), ZeRO-2 scatters its gradients in
    each pass, ZeRO-3 and FSDP2 gather the weights for each forward and each backward pass too.
    """
    ranks = total_ranks(machine)
    ring = (ranks - 1) / ranks
    weights, gradients = 2 * counted.all, 2 * counted.trained
    return (
        ring
        * {
            "none": 2 * 4 * counted.trained,
            "zero2": accumulation * gradients + 2 * counted.trained,
            "zero3": accumulation * (2 * weights + gradients),
            "fsdp2": accumulation * (2 * weights + 2 * gradients),
        }[machine.sharding]
    )


def stage_speed(settings: Stage, shape: Shape, machine: Machine, batch: Batch) -> Speed | None:
    """The expected speed of a stage; None where the machine file names no peak, nor what its processor reaches.
    `batch`: micro-batch and accumulation."""
    if not (machine.gpu_tflops if machine.gpus else machine.cpu_tflops):
        return None
    counted, ranks = counts(shape, settings), total_ranks(machine)
    work = operations(shape, settings, counted, machine.recomputed(shape.num_hidden_layers))
    tokens = batch.micro * batch.accumulation * settings.sequence_length  # per GPU
    if not machine.gpus:
        seconds = tokens * (work.model + work.recomputed) / (machine.cpu_tflops * 1e12)
        return Speed(seconds, 0.0, 0.0, ranks * tokens / seconds, None)
    compute = tokens * gpu_seconds(work, shape, machine)
    if settings.quantize != "none":
        compute *= 1.3  # dequantizing: published QLoRA rows run at three quarters of LoRA's speed (docs/plan.md)
    sent = bytes_sent(counted, machine, batch.accumulation) / bandwidth(machine)
    communication = max(0.0, sent - OVERLAP * compute)
    offload = 0.0
    if machine.offload:
        # gradients go to the host in each pass (ZeRO-2) and are added there; the new weights come back once
        moved = (2 * batch.accumulation + 2) * counted.trained / ranks / (HOST_LINK)
        updated = counted.trained / machine.nodes / HOST_ADAM
        offload = moved + updated
    seconds = compute + communication + offload
    mfu = tokens * work.model / seconds / (machine.gpu_tflops * 1e12)
    return Speed(compute, communication, offload, ranks * tokens / seconds, mfu)


def stage_hours(speed: Speed, steps: int, evaluations: float) -> float:
    """Hours of a stage. `evaluations`: seconds of all validation losses."""
    return (steps * speed.step + evaluations) / 3600
