"""Memory of a stage per GPU and per host, part by part.

budget = stage_budget(settings, shape, machine, Batch(micro=1, accumulation=16))
budget.gpu["logits"], budget.total     # bytes

All of it follows from closed forms: of the model states (states.py) and of what a pass keeps alive.

A pass has five phases, and the peak is in one of them: the layers forward, the loss, the backward pass through the
head, through the last layer, and through the embedding. Checkpointed layers keep their input alone; all others what
their backward pass reads: both inputs of SwiGLU's product and its result, what each norm and the attention read, and
the input of each trained matrix. A compiled layer keeps less, as it computes norms and products again. A loss in chunks
keeps the gradients of its inputs in place of the logits. The terms follow from traces of transformers' Qwen2 code on
fake tensors; some of these are in tests/training/planning/traced_passes.json.
"""

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from scripts.experiment.model_folder import Shape
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Lora, Stage
from scripts.training.model.kernels import (
    CHUNK,
    FLASH_CAPABILITY,
    UNSHARDED_WEIGHTS,
    VARLEN,
    choose_attention,
    choose_compile,
)
from scripts.training.planning.parameters import (
    count_parameters,
    counts,
    key_width,
    layer_parameters,
    layers_with_gradients,
    query_width,
)
from scripts.training.planning.resolved_stage import Batch, local_ranks, total_ranks
from scripts.training.planning.states import GIB, model_states


@dataclass(frozen=True)
class Pass:
    """All that determines the memory of one pass.

    Attributes:
        recomputed: how many of the layers, the first ones, keep their input alone.
        flash: whether the kernel takes documents' offsets, not a mask.
        chunked: whether the loss is computed in chunks of tokens (scripts/training/model/chunked_loss.py).
        autocast: whether it computes in bf16 on weights of float32.
        accumulated: whether gradients of earlier passes exist, and are not counted; else those made here are.
    """

    shape: Shape
    sequence_length: int
    rows: int
    recomputed: int
    flash: bool
    compiled: bool
    weights: Literal["float32", "bfloat16"]
    autocast: bool
    chunked: bool = False
    lora: Lora | None = None
    training: bool = True
    accumulated: bool = True

    @property
    def tokens(self) -> int:
        return self.rows * self.sequence_length

    @property
    def wide(self) -> int:
        """Bytes per weight, and per value of the residual stream."""
        return 2 if self.weights == "bfloat16" else 4

    @property
    def mixed(self) -> bool:
        """Whether autocast makes bf16 copies of fp32 weights, which it keeps until the forward pass ends."""
        return self.autocast and self.weights == "float32"

    @property
    def computed(self) -> int:
        """Bytes per value that a matrix product reads and writes."""
        return 2 if self.autocast else self.wide


class Peak(NamedTuple):
    """The most bytes that a pass keeps alive."""

    bytes: int
    logits: int  # of these, the logits in all their copies
    phase: str


# What the two norms of a layer keep, in bytes per value of the hidden states (input, normalized input, output), by what
# is trained and the bytes of a value that is computed: run eagerly, and compiled.
NORMS = {
    ("adapters", 2): (8, 4),
    ("adapters", 4): (4, 8),
    ("autocast weights", 2): (28, 12),
    ("weights", 2): (16, 8),
    ("weights", 4): (24, 20),
}


def norm_bytes(spec: Pass) -> int:
    """Bytes per value of the hidden states that the two norms of a layer keep."""
    trained = "weights"
    if spec.lora:
        trained = "adapters"
    elif spec.mixed:
        trained = "autocast weights"
    eager, compiled = NORMS[trained, spec.computed]
    if spec.compiled:
        return compiled
    return eager


def adapter_inputs(spec: Pass) -> list[tuple[str, int]]:
    """(name, width) of the input of each adapter of one layer; adapters of equal names read the same input."""
    attention, products = ("attention", spec.shape.hidden_size), ("products", spec.shape.hidden_size)
    inputs = {"q_proj": attention, "k_proj": attention, "v_proj": attention, "gate_proj": products, "up_proj": products}
    inputs |= {"o_proj": ("attended", query_width(spec.shape)), "down_proj": ("inner", spec.shape.intermediate_size)}
    targets = list(inputs) if spec.lora.targets == "all-linear" else spec.lora.targets
    return [inputs.get(target, attention) for target in targets]


def layer_bytes(spec: Pass) -> float:
    """What one layer keeps for its backward pass."""
    shape, value = spec.shape, spec.computed
    attention = value * (2 * query_width(shape) + 2 * key_width(shape))
    if not spec.flash:  # keys and values are repeated for each query head, and each layer has its own mask
        attention += value * (2 * (query_width(shape) - key_width(shape)) + spec.sequence_length)
    products = 3 if spec.compiled else 4
    adapters = 0
    if spec.lora:
        products -= 1  # the frozen last matrix needs no input
        inputs = adapter_inputs(spec)
        if (value == 4 or spec.compiled) and not spec.lora.dropout:
            inputs = dict(inputs).items()  # without a copy of its own, adapters share what they read
        dropped = 0
        if spec.lora.dropout:
            dropped = 1 if spec.compiled else 4  # per value: what says which ones stay
        adapters = (value + dropped) * sum(width for _, width in inputs)
    inner = products * value * shape.intermediate_size
    return spec.tokens * (inner + norm_bytes(spec) * shape.hidden_size + attention + adapters)


def pass_peak(spec: Pass, layers: int) -> Peak:
    """The peak of a pass through `layers` layers; in training those through which gradients flow."""
    shape, tokens, value = spec.shape, spec.tokens, spec.computed
    hidden, vocabulary = shape.hidden_size, shape.vocab_size
    copied_layer = copied_head = 0
    if spec.mixed:
        copied_layer = 2 * layer_parameters(shape) / shape.num_hidden_layers
        copied_head = 2 * vocabulary * hidden
    if spec.chunked:
        logits = min(tokens, CHUNK) * vocabulary * 8  # in fp32, before and after the softmax
    else:
        logits = tokens * vocabulary * (10 if value == 2 else 8)  # as computed, as fp32, and shifted
    if not spec.training:
        held = tokens * spec.wide * hidden + layers * copied_layer + copied_head
        return Peak(round(held + logits), logits, "loss")
    # what the layers keep
    layer = layer_bytes(spec)
    again = min(spec.recomputed, layers)
    whole = layers - again  # the last ones, which are through the backward pass before the first recomputation
    inputs = again * tokens * spec.wide * hidden
    kept = inputs + whole * layer
    # what one layer makes beside it, forward and backward
    widest = 0
    if spec.lora:
        widest = max(width for _, width in adapter_inputs(spec))
    adapted = (8 if spec.lora and spec.lora.dropout else 4) * widest
    forward = 0
    if not whole:
        forward = tokens * (value * (3 * shape.intermediate_size + 2 * hidden) + adapted)
    head_gradient = summed = 0
    inner_gradients = 1
    if not spec.lora:
        head_gradient = vocabulary * hidden * spec.wide
        summed = 4 * vocabulary * hidden  # the head's gradient over the chunks of the loss
        inner_gradients = 2
    backward = tokens * (value * shape.intermediate_size * inner_gradients + adapted)
    tied = 0
    if shape.tie_word_embeddings:
        tied = head_gradient
    peaks = [Peak(kept + forward + layers * copied_layer, 0, "forward")]
    norm = tokens * hidden * norm_bytes(spec) / 2 + copied_head
    copies = whole * copied_layer  # kept for the backward pass
    if spec.chunked:
        selected = norm + 2 * tokens * hidden * spec.wide  # tokens with a target, and their gradient
        made = kept + layers * copied_layer + selected + summed
        peaks.append(Peak(made + logits, logits, "loss"))
        peaks.append(Peak(kept + copies + selected + head_gradient, 0, "head"))
    else:
        peaks.append(Peak(kept + layers * copied_layer + norm + logits, logits, "loss"))
        gradients = 12 * tokens * vocabulary  # logits in fp32, their gradient, and that in the loss
        peaks.append(Peak(kept + copies + norm + gradients, gradients, "head"))
    if whole:
        peaks.append(Peak(kept + backward + tied + copies, 0, "last"))
    if again:
        peaks.append(Peak(inputs + layer + copied_layer + backward + tied, 0, "last"))
    rest = 0
    if not spec.lora:
        rest = head_gradient + 2 * tied + tokens * spec.wide * hidden
    if not spec.accumulated and not spec.lora:
        rest = spec.wide * count_parameters(shape)
    peaks.append(Peak(rest, 0, "rest"))
    most = max(peaks)
    return Peak(round(most.bytes), round(most.logits), most.phase)


# CUDA's context with the kernels that torch, cuBLAS and Triton load; NCCL's channels where GPUs talk (docs/plan.md)
CONTEXT, COMMUNICATION = 0.6 * GIB, 0.4 * GIB
# Share of what comes and goes that the allocator reserves and cannot hand out (docs/plan.md has the figures and their
# source); model states are made once and leave no gaps.
FRAGMENTATION = 0.10
PROCESS = 2.0 * GIB  # of host memory: interpreter, libraries, pinned buffers, the data loader


class Budget(NamedTuple):
    gpu: dict[str, float]  # bytes by part
    host: dict[str, float]
    peak: str  # the phase in which most memory is used

    @property
    def total(self) -> float:
        return sum(self.gpu.values())


def stage_passes(
    settings: Stage, shape: Shape, machine: Machine, batch: Batch, chunked: bool | None = None
) -> tuple[Pass, Pass]:
    """The training pass and the validation pass of a stage."""
    half = settings.precision == "bf16"
    zero, gathered = machine.sharding.startswith("zero"), machine.sharding == "fsdp2"
    capability = FLASH_CAPABILITY if machine.gpus else None
    training = Pass(
        shape=shape,
        sequence_length=settings.sequence_length,
        rows=batch.micro,
        recomputed=machine.recomputed(shape.num_hidden_layers),
        flash=choose_attention(capability, settings.precision).name == VARLEN,
        compiled=choose_compile(machine, settings.quantize).name == "on",
        chunked=machine.sharding in UNSHARDED_WEIGHTS if chunked is None else chunked,
        weights="bfloat16" if half and (zero or gathered or settings.method == "lora") else "float32",
        autocast=half and not zero,
        lora=settings.lora if settings.method == "lora" else None,
        # one process with one pass per step makes its gradients in that pass
        accumulated=machine.sharding != "none" or total_ranks(machine) > 1 or batch.accumulation > 1,
    )
    return training, replace(training, training=False, recomputed=0, accumulated=False)


def dequantized(shape: Shape, settings: Stage) -> float:
    """Bytes of the largest matrix in the precision of compute, made by each pass through quantized weights."""
    if settings.quantize == "none":
        return 0
    return 2 * shape.hidden_size * shape.intermediate_size


def stage_budget(
    settings: Stage,
    shape: Shape,
    machine: Machine,
    batch: Batch,
    validates: bool = True,
    chunked: bool | None = None,
) -> Budget:
    """The memory of a stage.

    Args:
        batch: rows per process and pass, and passes per optimizer step.
        validates: whether validation rows are scored too, as every stage with such rows does.
        chunked: whether the loss is computed in chunks; as stages do, if it is not given.
    """
    states = model_states(shape, settings, machine)
    counted = counts(shape, settings)
    training, validation = stage_passes(settings, shape, machine, batch, chunked)
    # layers before the first trained one keep nothing for the backward pass
    layers = max(2, layers_with_gradients(shape, counted))
    ranks = total_ranks(machine)
    busy = pass_peak(training, layers)
    if not training.accumulated:  # its gradients are made within the pass, and are counted with the states
        busy = busy._replace(bytes=max(0, busy.bytes - round(states.gradients)))
    step = OPTIMIZERS[settings.optimizer].step_bytes * counted.largest
    if step > busy.bytes:
        busy = Peak(round(step), 0, "optimizer step")
    scored = pass_peak(validation, shape.num_hidden_layers)
    if (
        validates and scored.bytes > busy.bytes + states.gradients
    ):  # no gradient exists while the validation rows are scored
        busy = Peak(scored.bytes - round(states.gradients), scored.logits, "validation")
    moving = busy.bytes + dequantized(shape, settings) + states.gathered
    logits = min(busy.logits, busy.bytes)
    gpu = {
        "weights": states.weights,
        "gradients": states.gradients,
        "optimizer": states.optimizer,
        "gathered weights": states.gathered,
        "buckets": states.buckets,
        "activations": busy.bytes - logits + dequantized(shape, settings),
        "logits": float(logits),
    }
    processes = local_ranks(machine)
    if not machine.gpus:
        host = {"all processes": processes * sum(gpu.values()), "programs": processes * PROCESS}
        return Budget(gpu, host, busy.phase)
    gpu |= {"CUDA": CONTEXT + (COMMUNICATION if ranks > 1 else 0), "fragmentation": FRAGMENTATION * moving}
    host = {"states or loading": states.host, "programs": processes * PROCESS}
    return Budget(gpu, host, busy.phase)
