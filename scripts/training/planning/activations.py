"""Memory of one pass through a decoder-only model, besides the model states, in closed form.

    pass_peak(spec, layers=28)     # Peak(bytes=8_416_000_000, logits=7_474_000_000, phase="head")

A pass has five phases, and the peak is in one of them: the layers forward, the loss, the backward pass through the
head, through the last layer, and through the embedding. Checkpointed layers keep their input alone; all others what
their backward pass reads: both inputs of SwiGLU's product and its result, what each norm and the attention read, and
the input of each trained matrix. Liger's kernels keep less: RMS norm its input, SwiGLU its two inputs, and the fused
loss the gradients of its inputs in place of the logits.

The terms follow from traces of transformers' Qwen2 code on fake tensors, in which every storage was counted; some of
these traces are in tests/training/planning/traced_passes.json.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from scripts.experiment.model_shape import Shape
from scripts.experiment.settings.training import Lora
from scripts.training.planning.parameters import count_parameters, key_width, layer_parameters, query_width


@dataclass(frozen=True)
class Pass:
    """All that determines the memory of one pass.

    Attributes:
        flash: whether the kernel takes documents' offsets, not a mask.
        autocast: whether it computes in bf16 on weights of float32.
        accumulated: whether gradients of earlier passes exist, and are not counted; else those made here are.
    """

    shape: Shape
    sequence_length: int
    rows: int
    checkpointing: bool
    flash: bool
    liger: bool
    weights: Literal["float32", "bfloat16"]
    autocast: bool
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


def norm_bytes(spec: Pass) -> int:
    """Bytes per value of the hidden states that the two norms of a layer keep: input, normalized input, output."""
    if spec.lora:
        if spec.liger:
            return 2 * spec.wide
        return 8 if spec.computed == 2 else 4
    if spec.mixed:
        return 20 if spec.liger else 28
    if spec.computed == 2:
        return 8 if spec.liger else 16
    return 16 if spec.liger else 24


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
    products = 3 if spec.liger else 4
    adapters = 0
    if spec.lora:
        products -= 1  # the frozen last matrix needs no input
        inputs = adapter_inputs(spec)
        if value == 4 and not spec.lora.dropout:
            inputs = dict(inputs).items()  # without a copy of its own, adapters share what they read
        adapters = (value + 4 * bool(spec.lora.dropout)) * sum(width for _, width in inputs)
    inner = products * value * shape.intermediate_size
    return spec.tokens * (inner + norm_bytes(spec) * shape.hidden_size + attention + adapters)


def pass_peak(spec: Pass, layers: int) -> Peak:
    """The peak of a pass through `layers` layers; in training those through which gradients flow."""
    shape, tokens, value = spec.shape, spec.tokens, spec.computed
    hidden, vocabulary = shape.hidden_size, shape.vocab_size
    copied_layer = 2 * layer_parameters(shape) / shape.num_hidden_layers if spec.mixed else 0
    copied_head = 2 * vocabulary * hidden if spec.mixed else 0
    logits = tokens * vocabulary * (10 if value == 2 else 8)  # as computed, as fp32, and shifted
    if not spec.training:
        held = tokens * spec.wide * hidden + layers * copied_layer + copied_head
        return Peak(round(held + logits), logits, "loss")
    # what the layers keep
    layer = layer_bytes(spec)
    kept = layers * (tokens * spec.wide * hidden if spec.checkpointing else layer)
    # what one layer makes beside it, forward and backward
    widest = max(width for _, width in adapter_inputs(spec)) if spec.lora else 0
    adapted = (8 if spec.lora and spec.lora.dropout else 4) * widest
    forward = tokens * (value * (3 * shape.intermediate_size + 2 * hidden) + adapted) if spec.checkpointing else 0
    backward = tokens * (value * shape.intermediate_size * (1 if spec.lora else 2) + adapted)
    head_gradient = 0 if spec.lora else vocabulary * hidden * spec.wide
    tied = head_gradient if shape.tie_word_embeddings else 0
    peaks = [Peak(kept + forward + layers * copied_layer, 0, "forward")]
    if spec.liger:
        chunks = -(-vocabulary // hidden)
        chunk = min(tokens, 1 << max(0, -(-tokens // chunks) - 1).bit_length())
        fused = 2 * head_gradient + chunk * vocabulary * (spec.wide + 4) + 3 * tokens * spec.wide * hidden
        peaks.append(Peak(kept + layers * copied_layer + fused, 0, "loss"))
    else:
        norm = tokens * hidden * norm_bytes(spec) / 2 + copied_head
        peaks.append(Peak(kept + layers * copied_layer + norm + logits, logits, "loss"))
        gradients = 12 * tokens * vocabulary  # logits in fp32, their gradient, and that in the loss
        copies = 0 if spec.checkpointing else layers * copied_layer  # kept for the backward pass
        peaks.append(Peak(kept + copies + norm + gradients, gradients, "head"))
    last = kept + backward + tied + (layer + copied_layer if spec.checkpointing else layers * copied_layer)
    peaks.append(Peak(last, 0, "last"))
    rest = 0 if spec.lora else head_gradient + 2 * tied + tokens * spec.wide * hidden
    if not spec.accumulated and not spec.lora:
        rest = spec.wide * count_parameters(shape)
    peaks.append(Peak(rest, 0, "rest"))
    most = max(peaks)
    return Peak(round(most.bytes), round(most.logits), most.phase)
