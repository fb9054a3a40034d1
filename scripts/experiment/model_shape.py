"""The numbers in a model's config.json by which its memory and speed are planned, and by which a model is made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from scripts.common.errors import UserError
from scripts.experiment.settings.record import unknown_key_hint

# what older models call the keys of their config.json
OTHER_NAMES = {
    "hidden_size": ("n_embd", "d_model"),
    "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size"),
    "num_attention_heads": ("n_head", "n_heads"),
    "max_position_embeddings": ("n_positions", "max_sequence_length"),
}
# keys of config.json for the number of a layer's experts, for that of those a token passes, for the width of an expert,
# and for the width of those that all tokens pass
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
PASSED = ("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk")
EXPERT_WIDTH = ("moe_intermediate_size", "intermediate_size")
SHARED_WIDTH = ("shared_expert_intermediate_size", "shared_intermediate_size")
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")


def first_of(config: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The first of these values of a config.json that is there, and is not 0; None where there is none."""
    return next((config[key] for key in keys if config.get(key)), None)


def has_experts(config: Mapping[str, Any]) -> bool:
    """Whether a model's config.json says that it is a mixture of experts, whose tokens pass a part of the weights."""
    numbers = [config.get(key) or 0 for key in EXPERTS]
    # a list has one for each kind of input
    return any(isinstance(number, list) or (isinstance(number, int) and number > 1) for number in numbers)


def layer_of(name: str) -> int | None:
    """The number of the layer that a parameter of this name belongs to; None outside the layers."""
    number = re.search(r"\.(\d+)\.", f".{name}")
    return int(number[1]) if number else None


def completed(config: Mapping[str, Any], tensors: Mapping[str, list[int]]) -> dict[str, Any]:
    """A config.json with the keys of Qwen2's, as far as it or the weights say their values."""
    known = dict(config)
    for name, others in OTHER_NAMES.items():
        known[name] = first_of(config, (name, *others))
    layers = {layer_of(name) for name in tensors} - {None}
    known["num_hidden_layers"] = config.get("num_hidden_layers") or len(layers)
    known["num_key_value_heads"] = config.get("num_key_value_heads") or known["num_attention_heads"]
    if known["hidden_size"] and not known["intermediate_size"]:
        known["intermediate_size"] = 4 * known["hidden_size"]
    return known


def passed_width(config: Mapping[str, Any]) -> int | None:
    """The inner width that a token passes in a layer of experts; None where config.json does not say it."""
    count, width = first_of(config, PASSED), first_of(config, EXPERT_WIDTH)
    if not isinstance(count, int) or not isinstance(width, int):
        return None
    shared = first_of(config, SHARED_WIDTH) or width * (first_of(config, SHARED) or 0)
    return count * width + shared


@dataclass(frozen=True)
class Shape:
    """A model of Qwen2's kind: by the names and with the defaults of its config.json.

    Attributes:
        intermediate_size: with experts, of those that a token passes, together.
        head_dim: where it is not `hidden_size` / `num_attention_heads`, as in Qwen3 and Mistral-Nemo.
        vocab_size: None while the tokenizer is not known; without it nothing is planned.
        tensors: name → sizes of the weights of a model that is there, of all experts of a layer as one; else the
            weights are those of a Qwen2.
        experts: whether the tokens pass a part of the weights.
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int | None = None
    max_position_embeddings: int = 32768
    tie_word_embeddings: bool = False
    vocab_size: int | None = None
    tensors: Mapping[str, list[int]] | None = field(default=None, repr=False, compare=False)
    experts: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, Any], tensors: Mapping[str, list[int]] | None = None) -> Self | None:
        """The shape in a model's config.json; None where that does not say it, as with layers of several sizes.

        A model with experts has none without its `tensors`.
        """
        if tensors:
            config = completed(config, tensors)
        known = {name: config[name] for name in SETTINGS if config.get(name) is not None}
        experts = has_experts(config)
        if experts:
            known["intermediate_size"] = passed_width(config)
        several_sizes = config.get("per_layer_config") or config.get("hidden_size_per_layer_input")  # as in Gemma 4
        complete = all(isinstance(known.get(name), int) for name in (*REQUIRED, "vocab_size"))  # no list of sizes
        if several_sizes or not complete or (experts and not tensors):
            return None
        return cls(**known, tensors=tensors, experts=experts)


SETTINGS = [field.name for field in fields(Shape) if field.name not in ("tensors", "experts")]
REQUIRED = SETTINGS[:5]


def check_shape(shape: Mapping[str, Any], key: str) -> None:
    """Check `shape` of the settings. Raises UserError: a key is missing or unknown, or a number is too small; the line
    starts with `key`."""
    for name, value in shape.items():
        if name not in SETTINGS:
            raise UserError(f"{key}.{name}: unknown key; {unknown_key_hint(name, SETTINGS)}")
        if name == "tie_word_embeddings" and not isinstance(value, bool):
            raise UserError(f"{key}.{name}: must be true or false, not {value!r}")
        if name != "tie_word_embeddings" and (isinstance(value, bool) or value < 1):
            raise UserError(f"{key}.{name}: must be a whole number of at least 1, not {value!r}")
    for name in REQUIRED:
        if name not in shape:
            raise UserError(f"{key}.{name}: required")
