"""Switch RoPE off in some layers (NoPE), by converting a Qwen2 model to another architecture of transformers.

SmolLM3 (Bakouch et al., 2025) is Qwen2 plus a switch per layer, `no_rope_layers` (1 = RoPE on), and a bias on `o_proj`.
A Qwen2 model with zeros for that bias is the same function, and the layers without RoPE are part of the saved model: it
loads anywhere without a patch, and never with RoPE on by mistake. Rule `base` converts (scripts/training/base.py), with

    python -m scripts.training.base --settings '{"model": ..., "no_rope_layers": ["20-27"]}' ...
"""

import logging
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json, write_json

KEY = "training.base.no_rope_layers"
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
WEIGHTS, BIASES = "model-weights.safetensors", "model-o-proj-bias.safetensors"
# keys of Qwen2's configuration that SmolLM3's does not have, or that the conversion sets
DROPPED = {"model_type", "architectures", "layer_types", "max_window_layers", "use_mrope", "no_rope_layers"}


def expand_layers(layers: list[int | str], depth: int) -> list[int]:
    """Layer numbers from numbers and ranges ("20-27" includes both ends), sorted. Raises UserError: a layer is not
    among the model's 0 to `depth` - 1, a range runs backwards, or a layer is named twice."""
    numbers = []
    for item in layers:
        first, last = map(int, item.split("-")) if isinstance(item, str) else (item, item)
        if first > last:
            raise UserError(f"{KEY}: {item} runs backwards; write {last}-{first}")
        if first < 0 or last >= depth:
            raise UserError(f"{KEY}: {item} is out of range; the model has layers 0 to {depth - 1}")
        numbers += range(first, last + 1)
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    if twice:
        raise UserError(f"{KEY}: {', '.join(map(str, twice))} named more than once")
    return sorted(numbers)


def convert_to_nope(folder: Path, layers: list[int | str]) -> None:
    """Convert the Qwen2 model in `folder` to a SmolLM3 with RoPE off in `layers` (see `expand_layers`).

    The weights on disk do not change; the zero biases become one more safetensors file. So even a large model takes no
    memory. With no layers the result is the same function as before.

    Raises:
        UserError: the model is no Qwen2, attends in a sliding window, or has no such layer.
    """
    from transformers import Qwen2Config, SmolLM3Config

    model_type = read_json(folder / "config.json").get("model_type")
    if model_type != "qwen2":
        raise UserError(f"{KEY}: only Qwen2 models can be converted, this one is {model_type!r}")
    source = Qwen2Config.from_pretrained(folder)
    if "sliding_attention" in source.layer_types:
        raise UserError(f"{KEY}: the model attends in a sliding window; only models with full attention are converted")
    numbers = expand_layers(layers, source.num_hidden_layers)
    fields = {name: value for name, value in source.to_dict().items() if name not in DROPPED}
    config = SmolLM3Config(
        **fields
        | {
            "attention_bias": True,
            "mlp_bias": False,
            "no_rope_layers": [int(layer not in numbers) for layer in range(source.num_hidden_layers)],
            "layer_types": ["full_attention"] * source.num_hidden_layers,
            "use_sliding_window": False,
            "sliding_window": None,
        },
        architectures=["SmolLM3ForCausalLM"],
    )
    add_biases(folder, source.num_hidden_layers)
    config.save_pretrained(folder)
    logging.info(f"no_rope_layers: RoPE is off in layers {', '.join(map(str, numbers)) or 'none'}")


def add_biases(folder: Path, depth: int) -> None:
    """Write the zero `o_proj` biases, in the type of the weights they belong to, and the index of all files."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    if (folder / INDEX).is_file():
        index = read_json(folder / INDEX)
    else:
        # transformers looks for this name before the index
        (folder / SINGLE).replace(folder / WEIGHTS)
        with safe_open(folder / WEIGHTS, "pt") as file:
            index = {"metadata": {}, "weight_map": dict.fromkeys(sorted(file.keys()), WEIGHTS)}
    biases = {}
    for layer in range(depth):
        name = f"model.layers.{layer}.self_attn.o_proj"
        with safe_open(folder / index["weight_map"][f"{name}.weight"], "pt") as file:
            weight = file.get_tensor(f"{name}.weight")  # [width, heads * head size]
            biases[f"{name}.bias"] = weight.new_zeros(weight.shape[0])
    save_file(biases, folder / BIASES, metadata={"format": "pt"})
    index["weight_map"] |= dict.fromkeys(biases, BIASES)
    if "total_size" in index["metadata"]:
        index["metadata"]["total_size"] += sum(bias.nbytes for bias in biases.values())
    write_json(folder / INDEX, index)


def no_rope_parameters(model) -> list[str]:
    """The names of all parameters of the layers without RoPE, by the model's own configuration. Raises UserError: RoPE
    is on in all layers, so there is nothing to train."""
    layers = [layer for layer, on in enumerate(getattr(model.config, "no_rope_layers", None) or []) if not on]
    if not layers:
        raise UserError(f"trainable: no_rope_layers: RoPE is on in all layers of the model; see {KEY}")
    prefixes = tuple(f"model.layers.{layer}." for layer in layers)
    return [name for name, _ in model.named_parameters() if name.startswith(prefixes)]
