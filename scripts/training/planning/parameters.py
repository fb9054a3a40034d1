"""The number of parameters of a Qwen2 model of a given shape, from formulas, without building the model."""

from collections.abc import Iterator
from fnmatch import fnmatch
from typing import NamedTuple

from scripts.experiment.model_shape import Shape
from scripts.experiment.settings.training import Lora, Stage


def head_width(shape: Shape) -> int:
    return shape.head_dim or shape.hidden_size // shape.num_attention_heads


def query_width(shape: Shape) -> int:
    """The outputs of a layer's query projection, and the inputs of its output projection."""
    return head_width(shape) * shape.num_attention_heads


def key_width(shape: Shape) -> int:
    """The outputs of a layer's key projection, and of its value projection."""
    return head_width(shape) * shape.num_key_value_heads


def matrix_parameters(shape: Shape) -> int:
    """The parameters of all layers' matrices: attention and SwiGLU."""
    width, inner = shape.hidden_size, shape.intermediate_size
    attention = 2 * width * query_width(shape) + 2 * width * key_width(shape)
    return shape.num_hidden_layers * (attention + 3 * width * inner)


def layer_parameters(shape: Shape) -> int:
    """The parameters of all layers: matrices, q/k/v biases and RMS norms."""
    vectors = query_width(shape) + 2 * key_width(shape) + 2 * shape.hidden_size
    return matrix_parameters(shape) + shape.num_hidden_layers * vectors


def head_parameters(shape: Shape) -> int:
    """The parameters of a head that is not also the embedding."""
    if shape.tie_word_embeddings:
        return 0
    return shape.vocab_size * shape.hidden_size


def embedding_parameters(shape: Shape) -> int:
    """The parameters outside the layers: embedding, head and last norm."""
    return shape.vocab_size * shape.hidden_size + head_parameters(shape) + shape.hidden_size


def count_parameters(shape: Shape) -> int:
    """The number of parameters of a Qwen2 model; `shape.vocab_size` must be known."""
    return layer_parameters(shape) + embedding_parameters(shape)


def adapter_parameters(shape: Shape, lora: Lora) -> int:
    """The parameters of LoRA adapters: r · (inputs + outputs) for each target in each layer."""
    width, inner = shape.hidden_size, shape.intermediate_size
    queries, keys = width + query_width(shape), width + key_width(shape)
    sides = {"q_proj": queries, "k_proj": keys, "v_proj": keys, "o_proj": queries}
    sides |= dict.fromkeys(("gate_proj", "up_proj", "down_proj"), width + inner)
    targets = sides if lora.targets == "all-linear" else lora.targets
    return shape.num_hidden_layers * lora.r * sum(sides.get(target, 0) for target in targets)


class Counts(NamedTuple):
    """Parameters of a model and of the part that a stage trains."""

    all: int
    trained: int
    matrices: int  # trained, of the layers' matrices, or of adapters
    head: int  # trained, of a head that is not also the embedding
    largest: int  # the largest trained matrix of a layer
    first_layer: int  # the first layer with a trained parameter; 0 where the embedding is trained


def named_parameters(shape: Shape) -> Iterator[tuple[str, int, bool]]:
    """(name, number of values, whether it is a matrix) of each parameter of a Qwen2 model, by transformers' names."""
    width, inner, queries, keys = shape.hidden_size, shape.intermediate_size, query_width(shape), key_width(shape)
    yield "model.embed_tokens.weight", shape.vocab_size * width, True
    for layer in range(shape.num_hidden_layers):
        start = f"model.layers.{layer}"
        for name, outputs in {"q": queries, "k": keys, "v": keys}.items():
            yield f"{start}.self_attn.{name}_proj.weight", outputs * width, True
            yield f"{start}.self_attn.{name}_proj.bias", outputs, False
        yield f"{start}.self_attn.o_proj.weight", width * queries, True
        for name in ("gate", "up", "down"):
            yield f"{start}.mlp.{name}_proj.weight", inner * width, True
        yield f"{start}.input_layernorm.weight", width, False
        yield f"{start}.post_attention_layernorm.weight", width, False
    yield "model.norm.weight", width, False
    if not shape.tie_word_embeddings:
        yield "lm_head.weight", shape.vocab_size * width, True


# Parameters of near relatives, which `named_parameters` has not: of Qwen3, and the bias of Qwen2 as a SmolLM3.
RELATIVES = ("q_norm.weight", "k_norm.weight", "o_proj.bias")


def parameter_names(shape: Shape) -> list[str]:
    """The names that a model of this shape, or of a near relative, may have."""
    relatives = []
    for layer in range(shape.num_hidden_layers):
        for n in RELATIVES:
            relatives.append(f"model.layers.{layer}.self_attn.{n}")
    return [name for name, _, _ in named_parameters(shape)] + relatives


def counts(shape: Shape, settings: Stage, no_rope_layers: list[int]) -> Counts:
    """How many parameters a stage has and trains.

    Args:
        no_rope_layers: the layers whose RoPE is off, for `trainable: no_rope_layers`.
    """
    if settings.method == "lora":
        adapters = adapter_parameters(shape, settings.lora)
        return Counts(count_parameters(shape) + adapters, adapters, adapters, 0, 0, 0)
    patterns = settings.trainable
    if patterns == "no_rope_layers":
        patterns = [f"model.layers.{layer}.*" for layer in no_rope_layers]
    chosen = []
    for name, count, matrix in named_parameters(shape):
        if patterns == "all" or any(fnmatch(name, pattern) for pattern in patterns):
            chosen.append((name, count, matrix))
    inner = [count for name, count, matrix in chosen if matrix and ".layers." in name]
    head = sum(count for name, count, _ in chosen if name.startswith("lm_head"))
    embedding = any(name.startswith("model.embed_tokens") for name, _, _ in chosen)
    layers = [int(name.split(".")[2]) for name, _, _ in chosen if ".layers." in name]
    first = 0
    if not embedding:
        first = min(layers, default=shape.num_hidden_layers)
    total = sum(count for _, count, _ in chosen)
    return Counts(count_parameters(shape), total, sum(inner), head, max(inner, default=0), first)
