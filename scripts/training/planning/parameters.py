"""The number of parameters of a model, without building it: those of its weights, or of a Qwen2 model of its shape."""

import math
from collections.abc import Mapping
from fnmatch import fnmatch
from functools import cache
from typing import NamedTuple

from scripts.experiment.model_folder import Shape, layer_of
from scripts.experiment.settings.training import Lora, Stage


def head_width(shape: Shape) -> int:
    return shape.head_dim or shape.hidden_size // shape.num_attention_heads


def query_width(shape: Shape) -> int:
    """The outputs of a layer's query projection, and the inputs of its output projection."""
    return head_width(shape) * shape.num_attention_heads


def key_width(shape: Shape) -> int:
    """The outputs of a layer's key projection, and of its value projection."""
    return head_width(shape) * shape.num_key_value_heads


@cache
def qwen2_weights(shape: Shape) -> Mapping[str, list[int]]:
    """Name → sizes of the weights of a Qwen2 of this shape, by transformers' names; q, k and v have biases."""
    width, inner, queries, keys = shape.hidden_size, shape.intermediate_size, query_width(shape), key_width(shape)
    weights = {"model.embed_tokens.weight": [shape.vocab_size, width]}
    for layer in range(shape.num_hidden_layers):
        start = f"model.layers.{layer}"
        for name, outputs in {"q": queries, "k": keys, "v": keys}.items():
            weights[f"{start}.self_attn.{name}_proj.weight"] = [outputs, width]
            weights[f"{start}.self_attn.{name}_proj.bias"] = [outputs]
        weights[f"{start}.self_attn.o_proj.weight"] = [width, queries]
        weights[f"{start}.mlp.gate_proj.weight"] = weights[f"{start}.mlp.up_proj.weight"] = [inner, width]
        weights[f"{start}.mlp.down_proj.weight"] = [width, inner]
        weights[f"{start}.input_layernorm.weight"] = weights[f"{start}.post_attention_layernorm.weight"] = [width]
    weights["model.norm.weight"] = [width]
    if not shape.tie_word_embeddings:
        weights["lm_head.weight"] = [shape.vocab_size, width]
    return weights


def weights_of(shape: Shape) -> Mapping[str, list[int]]:
    """Name → sizes of the weights: the model's own where it is there, else those of a Qwen2 of its shape."""
    if shape.tensors is None:
        return qwen2_weights(shape)
    return shape.tensors


def values_in(weights: Mapping[str, list[int]], layers: bool) -> int:
    """How many values the weights of the layers hold, or those outside the layers."""
    return sum(math.prod(sizes) for name, sizes in weights.items() if (layer_of(name) is not None) == layers)


def layer_parameters(shape: Shape) -> int:
    """The parameters of all layers."""
    return values_in(weights_of(shape), layers=True)


def passed_parameters(shape: Shape) -> int:
    """The parameters of all layers that a token passes; those of its experts are counted as one wide layer's."""
    if shape.experts:
        return min(values_in(qwen2_weights(shape), layers=True), layer_parameters(shape))
    return layer_parameters(shape)


def embedding_parameters(shape: Shape) -> int:
    """The parameters outside the layers: embedding, head and last norm."""
    return values_in(weights_of(shape), layers=False)


def count_parameters(shape: Shape) -> int:
    """The number of parameters of a model; `shape.vocab_size` must be known."""
    return layer_parameters(shape) + embedding_parameters(shape)


# Matrices of an expert that transformers holds as one, to which peft 0.21 gives adapters of twice the rank.
FUSED = ("gate_proj", "up_proj", "w1", "w3")


def adapter_parameters(shape: Shape, lora: Lora) -> int:
    """The parameters of LoRA adapters: r · (inputs + outputs) for each target in each layer; for two fused matrices of
    an expert 2 r · (inputs + outputs of both)."""
    adapters = 0
    for name, sizes in weights_of(shape).items():
        *_, module, kind = f".{name}".split(".")
        targeted = lora.targets == "all-linear" or module in lora.targets
        if layer_of(name) is not None and kind == "weight" and len(sizes) > 1 and targeted:
            outputs, inputs = sizes[-2:]
            if ".experts." in name and module in FUSED:
                outputs *= 2
            adapters += lora.r * math.prod(sizes[:-2]) * (inputs + outputs)
    return adapters


class Counts(NamedTuple):
    """Parameters of a model and of the part that a stage trains."""

    all: int
    trained: int
    matrices: int  # trained, of the layers' matrices, or of adapters
    head: int  # trained, of a head that is not also the embedding
    largest: int  # the largest trained matrix of a layer
    first_layer: int  # the first layer with a trained parameter; 0 where the embedding is trained


# Parameters of near relatives, which `qwen2_weights` has not: of Qwen3, and the bias of Qwen2 as a SmolLM3.
RELATIVES = ("q_norm.weight", "k_norm.weight", "o_proj.bias")


def parameter_names(shape: Shape) -> list[str]:
    """The names that a model of this shape, or of a near relative, may have."""
    relatives = []
    for layer in range(shape.num_hidden_layers):
        for n in RELATIVES:
            relatives.append(f"model.layers.{layer}.self_attn.{n}")
    return [*weights_of(shape), *relatives]


def counts(shape: Shape, settings: Stage) -> Counts:
    """How many parameters a stage has and trains."""
    if settings.method == "lora":
        adapters = adapter_parameters(shape, settings.lora)
        return Counts(count_parameters(shape) + adapters, adapters, adapters, 0, 0, 0)
    chosen, patterns = {}, settings.trainable
    for name, sizes in weights_of(shape).items():
        if patterns == "all" or any(fnmatch(name, pattern) for pattern in patterns):
            chosen[name] = sizes
    layers = [layer_of(name) for name in chosen if layer_of(name) is not None]
    inner = [math.prod(sizes) for name, sizes in chosen.items() if layer_of(name) is not None and len(sizes) > 1]
    head = sum(math.prod(sizes) for name, sizes in chosen.items() if name.startswith("lm_head"))
    embedding = any("embed" in name or ".wte." in f".{name}" for name in chosen)
    first = 0
    if not embedding:
        first = min(layers, default=shape.num_hidden_layers)
    total = sum(map(math.prod, chosen.values()))
    return Counts(count_parameters(shape), total, sum(inner), head, max(inner, default=0), first)


def layers_with_gradients(shape: Shape, counted: Counts) -> int:
    """How many layers gradients reach, at least 1: the last ones, from the first with a trained parameter."""
    return max(1, shape.num_hidden_layers - counted.first_layer)
