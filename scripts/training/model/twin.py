"""A small random twin of a model: the same architecture, layer types, head sizes and arguments of attention.

    model = twin(AutoConfig.from_pretrained("/models/gemma-2-2b"))

What an attention kernel can be right or wrong about is kept (sizes of heads, grouped heads, windows, caps, sinks, the
order of layer types); only what costs time is cut: the number of layers, heads and experts, widths, the vocabulary.
"""

import math

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

VOCABULARY, WIDTH, WINDOW = 256, 64, 8
LAYERS = 8  # of an architecture that says its layer types by a period, and not by a list
HEADS = ("num_attention_heads", "num_key_value_heads")
# the number of heads of the recurrent layers, and what keys and values are shared by
RECURRENT_HEADS = (
    "linear_num_key_heads",
    "linear_num_value_heads",
    "mamba_n_heads",
    "mamba_num_heads",
    "n_mamba_heads",
)
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")


def says_each_layer(value, count: int) -> bool:
    """Whether a setting is a list with one value for each of `count` layers, and not one of the numbers of layers."""
    return isinstance(value, list) and len(value) == count and value != list(range(count))


def kept_layers(settings: dict, count: int) -> list[int]:
    """Which layers the twin has: one of each kind, in their order, and two at least. `settings`: of the model; a list
    with one value for each layer says their kinds."""
    per_layer = [value for value in settings.values() if says_each_layer(value, count)]
    kinds = list(zip(*per_layer, strict=True)) if per_layer else [()] * count
    kept = [kinds.index(kind) for kind in dict.fromkeys(kinds)]
    periodic = any(("period" in name or "interval" in name) and value for name, value in settings.items())
    if not per_layer and periodic:
        return list(range(min(count, LAYERS)))
    kept += [layer for layer in range(count) if layer not in kept][: max(0, 2 - len(kept))]
    return sorted(kept)


def grouped_heads(query: int, key: int) -> tuple[int, int]:
    """Few heads in a like ratio: equal, one key head for all, a power of two, or another number."""
    if key == query:
        return 2, 2
    ratio = query // key
    small = ratio if ratio <= 3 else 3 + (math.log2(ratio).is_integer())
    return (small, 1) if key == 1 else (2 * small, 2)


def twin_settings(config: PreTrainedConfig) -> dict:
    """The settings of the twin of `config`, as `config.to_dict()` gives them."""
    settings = config.to_dict()
    names = {name: config.attribute_map.get(name, name) for name in (*HEADS, "num_hidden_layers", "hidden_size")}

    def put(name: str, value) -> None:
        name = names.get(name, name)
        if settings.get(name):
            settings[name] = value

    if not getattr(config, "num_attention_heads", None):
        raise ValueError("it has no attention")
    layers = config.num_hidden_layers
    kept = kept_layers(settings, layers)
    for name, value in settings.items():
        if says_each_layer(value, layers):
            settings[name] = [value[layer] for layer in kept]
        elif isinstance(value, list) and name.endswith(("layers", "layer_ids", "idxs")):  # numbers of layers
            settings[name] = [new for new, layer in enumerate(kept) if layer in value]
        elif name == "per_layer_config" and value:  # number of a layer → what differs in it
            of_layer = {int(layer): differing for layer, differing in value.items()}
            settings[name] = {new: of_layer[layer] for new, layer in enumerate(kept) if layer in of_layer}
        elif name.endswith(("intermediate_size", "ffn_dim", "n_inner")) and isinstance(value, int) and value:
            settings[name] = WIDTH
    settings.pop("num_hidden_layers", None)
    settings[names["num_hidden_layers"]] = len(kept)
    heads = config.num_attention_heads
    few, few_keys = grouped_heads(heads, getattr(config, "num_key_value_heads", None) or heads)
    size = settings.get("head_dim") or config.hidden_size // heads
    put("num_attention_heads", few)
    put("num_key_value_heads", few_keys)
    put("hidden_size", few * size)
    if "head_dim" in settings:
        settings["head_dim"] = settings["head_dim"] and size
    for name in RECURRENT_HEADS:
        put(name, 4 if "value" in name or "mamba" in name else 2)
    for name in ("mamba_d_head", "mamba_head_dim", "mamba_headdim"):
        put(name, (getattr(config, "mamba_expand", None) and few * size * config.mamba_expand // 4) or 16)
    put("mamba_d_ssm", 4 * settings.get("mamba_d_head", 16) if settings.get("mamba_d_head") else None)
    for name in ("mamba_n_groups", "n_groups", "mamba_ngroups"):
        put(name, 1)
    for name in ("mamba_chunk_size", "chunk_size"):
        put(name, 16)
    for name in EXPERTS:
        put(name, 8)
    put("num_experts_per_tok", 2)
    put("n_group", min(2, settings.get("n_group") or 1))
    put("topk_group", 1)
    put("first_k_dense_replace", 1)
    for name in ("q_lora_rank", "kv_lora_rank"):
        put(name, WIDTH)
    put("vocab_size", VOCABULARY)
    for name in ("sliding_window", "attention_chunk_size"):
        put(name, WINDOW)
    for name in TOKENS:
        if settings.get(name) is not None:
            settings[name] = 0
    put("vocab_size_per_layer_input", VOCABULARY)
    # large enough that a cap on the attention's scores, or what is left out of them, shows in the logits
    put("initializer_range", 3 / (few * size) ** 0.5)
    for name in ("dtype", "torch_dtype", "quantization_config", "_name_or_path", "architectures", "auto_map"):
        settings.pop(name, None)
    return settings


def twin(config: PreTrainedConfig) -> PreTrainedModel:
    """The twin, in float32 on the CPU, with eager attention; its weights are the same at each call."""
    text = config.get_text_config(decoder=True)
    small = type(text).from_dict(twin_settings(text))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(small, attn_implementation="eager", dtype=torch.float32)
        with torch.no_grad():  # where a fresh model has ones and zeros, a trained one has neither
            for weight in model.parameters():
                if weight.ndim == 1:
                    weight.add_(0.1 * torch.randn_like(weight))
    return model
