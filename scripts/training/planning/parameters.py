"""The number of parameters of a model, without building it: those of its weights, or of a Qwen2 model of its shape."""

import math
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import NamedTuple

from scripts.experiment.model_shape import Shape, layer_of
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


def qwen2_layer_parameters(shape: Shape) -> int:
    """The parameters of all layers of a Qwen2: matrices, q/k/v biases and RMS norms."""
    vectors = query_width(shape) + 2 * key_width(shape) + 2 * shape.hidden_size
    return matrix_parameters(shape) + shape.num_hidden_layers * vectors


def layer_parameters(shape: Shape) -> int:
    """The parameters of all layers."""
    if shape.tensors is None:
        return qwen2_layer_parameters(shape)
    return sum(count for name, count, _ in named_parameters(shape) if layer_of(name) is not None)


def passed_parameters(shape: Shape) -> int:
    """The parameters of all layers that a token passes; those of its experts are counted as one wide layer's."""
    if shape.experts:
        return min(qwen2_layer_parameters(shape), layer_parameters(shape))
    return layer_parameters(shape)


def head_parameters(shape: Shape) -> int:
    """The parameters of a head that is not also the embedding."""
    if shape.tie_word_embeddings:
        return 0
    return shape.vocab_size * shape.hidden_size


def embedding_parameters(shape: Shape) -> int:
    """The parameters outside the layers: embedding, head and last norm."""
    if shape.tensors is not None:
        return sum(count for name, count, _ in named_parameters(shape) if layer_of(name) is None)
    return shape.vocab_size * shape.hidden_size + head_parameters(shape) + shape.hidden_size


def count_parameters(shape: Shape) -> int:
    """The number of parameters of a model; `shape.vocab_size` must be known."""
    return layer_parameters(shape) + embedding_parameters(shape)


def adapter_parameters(shape: Shape, lora: Lora) -> int:
    """The parameters of LoRA adapters: r · (inputs + outputs) for each target in each layer."""
    if shape.tensors is not None:
        adapters = 0
        for name, sizes in shape.tensors.items():
            *_, module, kind = f".{name}".split(".")
            targeted = lora.targets == "all-linear" or module in lora.targets
            if layer_of(name) is not None and kind == "weight" and len(sizes) > 1 and targeted:
                adapters += lora.r * math.prod(sizes[:-2]) * sum(sizes[-2:])
        return adapters
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
    """(name, number of values, whether it is a matrix) of each parameter of a model, by transformers' names."""
    if shape.tensors is not None:
        for name, sizes in shape.tensors.items():
            tied = shape.tie_word_embeddings and name == "lm_head.weight"  # which some files hold once more
            if not tied and not name.endswith("inv_freq"):
                yield name, math.prod(sizes), len(sizes) > 1
        return
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
    inner = [count for name, count, matrix in chosen if matrix and layer_of(name) is not None]
    head = sum(count for name, count, _ in chosen if name.startswith("lm_head"))
    embedding = any("embed" in name or ".wte." in f".{name}" for name, _, _ in chosen)
    layers = [layer_of(name) for name, _, _ in chosen if layer_of(name) is not None]
    first = 0
    if not embedding:
        first = min(layers, default=shape.num_hidden_layers)
    total = sum(count for _, count, _ in chosen)
    return Counts(count_parameters(shape), total, sum(inner), head, max(inner, default=0), first)
