"""The numbers in a model's config.json by which its memory and speed are planned, and by which a model is made."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from scripts.common.errors import UserError
from scripts.experiment.settings.record import unknown_key_hint

# keys of config.json for the number of a layer's experts, of which a token passes some
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


def has_experts(config: Mapping[str, Any]) -> bool:
    """Whether a model's config.json says that it is a mixture of experts, whose tokens pass a part of the weights."""
    return any((config.get(key) or 0) > 1 for key in EXPERTS)


@dataclass(frozen=True)
class Shape:
    """A model of Qwen2's kind: by the names and with the defaults of its config.json.

    Attributes:
        head_dim: where it is not `hidden_size` / `num_attention_heads`, as in Qwen3 and Mistral-Nemo.
        vocab_size: None while the tokenizer is not known; without it nothing is planned.
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

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self | None:
        """The shape in a model's config.json; None where it is not of this kind, as with experts, or in Gemma 4."""
        if has_experts(config) or config.get("per_layer_config") or config.get("hidden_size_per_layer_input"):
            return None
        known = {field.name: config[field.name] for field in fields(cls) if config.get(field.name) is not None}
        if {*REQUIRED, "vocab_size"} <= known.keys():
            return cls(**known)
        return None


REQUIRED = [field.name for field in fields(Shape)][:5]


def check_shape(shape: Mapping[str, Any], key: str) -> None:
    """Check `shape` of the settings.

    Raises:
        UserError: a key is missing or unknown, or a number is too small; the line starts with `key`.
    """
    known = [field.name for field in fields(Shape)]
    for name, value in shape.items():
        if name not in known:
            raise UserError(f"{key}.{name}: unknown key; {unknown_key_hint(name, known)}")
        if name == "tie_word_embeddings" and not isinstance(value, bool):
            raise UserError(f"{key}.{name}: must be true or false, not {value!r}")
        if name != "tie_word_embeddings" and (isinstance(value, bool) or value < 1):
            raise UserError(f"{key}.{name}: must be a whole number of at least 1, not {value!r}")
    for name in REQUIRED:
        if name not in shape:
            raise UserError(f"{key}.{name}: required")
