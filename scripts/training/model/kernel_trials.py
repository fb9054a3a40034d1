"""Which attention kernels are right for a model: a tiny twin of it runs packed documents through each of them.

    echo '"/models/gemma-2-2b"' | python -m scripts.training.model.kernel_trials

A process of its own, started and cached by scripts/training/model/kernels.py. Each kernel gets two packed
documents, whose logits must be those of the documents one by one with eager attention. On the CPU the kernels of GPUs
are replaced by exact functions of the same signatures. An argument that a kernel's signature does not name is left out,
as by the kernel.
"""

import inspect
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch.nn.attention.flex_attention import create_mask
from transformers import AttentionInterface, AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.utils import logging as transformers_logging

from scripts.common.cli import run
from scripts.experiment.model_folder import EXPERTS
from scripts.training.model import attention
from scripts.training.model.chunked_loss import own_loss
from scripts.training.model.kernels import ALL_LINEAR, EAGER, FLEX, SDPA, VARLEN
from scripts.training.model.lora import linear_names

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


def with_layers(settings: dict, kept: list[int], layers: int) -> dict:
    """The settings of a model that has only the layers `kept` of `layers`, and narrow feed-forward layers."""
    settings = dict(settings)
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
    return settings


def twin_settings(config: PreTrainedConfig) -> dict:
    """The settings of the twin of `config`, as `config.to_dict()` gives them."""
    if not getattr(config, "num_attention_heads", None):
        raise ValueError("it has no attention")
    names = {name: config.attribute_map.get(name, name) for name in (*HEADS, "num_hidden_layers", "hidden_size")}
    settings = config.to_dict()
    kept = kept_layers(settings, config.num_hidden_layers)
    settings = with_layers(settings, kept, config.num_hidden_layers)

    def put(name: str, value) -> None:
        name = names.get(name, name)
        if settings.get(name):
            settings[name] = value

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


LENGTHS = (19, 29)  # of the two documents; longer than the twin's window
TOLERANCE = 1e-2  # of the spread of the logits; rounding in float32 is below 1e-3
VARLEN_SIZE = 256  # the largest head of varlen
FLEX_SIZE = 16  # the smallest of flex attention
LEAK = "documents packed into one row leak into each other"
# what attention may be given beyond query, key, value and mask, by the kernels that know most; a mask says the window
ARGUMENTS = {
    name
    for kernel in (flash_attention_forward, flex_attention_forward)
    for name, parameter in inspect.signature(kernel).parameters.items()
    if parameter.default is None
} - {"cache", "is_causal", "scaling"}


def exact(query, key, value, allowed, scale, softcap=None, s_aux=None) -> torch.Tensor:
    """Attention written out. `query`, `key`, `value`: [..., heads, length, size], with equally many heads; `allowed`:
    bool [..., length, length]."""
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~allowed, float("-inf"))
    total = scores.logsumexp(-1)
    if s_aux is not None:
        total = torch.logaddexp(total, s_aux.view(-1, 1))
    return (scores - total.unsqueeze(-1)).exp() @ value


def varlen_attn(query, key, value, cu_q, cu_k, max_q, max_k, *, scale, window_size, enable_gqa) -> torch.Tensor:
    """As torch.nn.attention.varlen's, which needs equal sizes of heads: causal attention within each document,
    [tokens, heads, size]."""
    assert query.shape[-1] == key.shape[-1] == value.shape[-1] and window_size[1] == 0
    assert enable_gqa or query.shape[1] == key.shape[1]
    left = window_size[0]  # keys before a query's own, -1 for all
    outputs = []
    for start, end in zip(cu_q[:-1].tolist(), cu_q[1:].tolist(), strict=True):
        q, k, v = (tensor[start:end].transpose(0, 1) for tensor in (query, key, value))
        k, v = (tensor.repeat_interleave(len(q) // len(tensor), 0) for tensor in (k, v))
        distance = torch.arange(end - start)[:, None] - torch.arange(end - start)
        allowed = (distance >= 0) & ((distance <= left) | (left < 0))
        outputs.append(exact(q, k, v, allowed, scale).transpose(0, 1))
    return torch.cat(outputs)


def flex_attention(module, query, key, value, attention_mask, scaling=None, softcap=None, s_aux=None, **kwargs):
    """As transformers' flex attention, which computes sinks on GPUs alone."""
    rows, heads, length, _ = query.shape
    allowed = create_mask(attention_mask.mask_mod, rows, 1, length, length, device="cpu")
    key, value = (tensor.repeat_interleave(heads // tensor.shape[1], 1) for tensor in (key, value))
    return exact(query, key, value, allowed, scaling, softcap, s_aux).transpose(1, 2).contiguous(), None


class Calls:
    """What a model gave to its attention kernel.

    Attributes:
        sizes: (of queries and keys, of values) of the heads.
        arguments: the names of the arguments that were not None.
        dropout: the largest.
    """

    def __init__(self):
        self.sizes, self.arguments, self.dropout = set(), set(), 0.0

    def recording(self, kernel: Callable) -> Callable:
        def recorded(module, query, key, value, attention_mask, **given):
            self.sizes.add((query.shape[-1], value.shape[-1]))
            self.arguments |= {name for name, value in given.items() if name in ARGUMENTS and value is not None}
            self.dropout = max(self.dropout, given.get("dropout") or 0.0)
            return kernel(module, query, key, value, attention_mask, **given)

        return recorded


def forward(model: PreTrainedModel, rows: list[list[torch.Tensor]], kernel: str) -> list[torch.Tensor]:
    """The logits of each document, [its tokens, vocabulary], of rows as the trainer gives them."""
    model.config._attn_implementation = kernel
    batch = []
    for documents in rows:
        positions = torch.cat([torch.arange(len(document)) for document in documents])
        tokens = torch.cat(documents)
        batch.append({"input_ids": tokens, "position_ids": positions, "labels": tokens})
    batch = attention.collator_for(kernel)(batch)
    del batch["labels"]
    logits = []
    with torch.no_grad():
        scores = model(**batch, use_cache=False).logits
    for row, documents in zip(scores, rows, strict=True):
        logits += row[: sum(map(len, documents))].split([len(document) for document in documents])
    return logits


def trial(
    model: PreTrainedModel, kernel: str, rows: list[list[torch.Tensor]], expected: list[torch.Tensor], calls: Calls
) -> str:
    """Why `kernel` is wrong for the model on these rows; empty if it is right. `expected`: the logits of each document,
    one by one with eager attention."""
    supported = {SDPA: "_supports_sdpa", FLEX: "_supports_flex_attn"}.get(kernel)
    if supported and not getattr(model, supported):
        return "the architecture does not support it"
    try:
        model.train()
        forward(model, rows, kernel)  # for the dropout of training
        model.eval()
        logits = forward(model, rows, kernel)
    except Exception as error:
        line = (str(error).strip() or "no message").splitlines()[0]
        return limits(kernel, calls) or f"it fails with {type(error).__name__}: {line}"
    reason = limits(kernel, calls)
    if reason:
        return reason
    other = []
    for ours, alone in zip(logits, expected, strict=True):
        other.append(not ((ours - alone).abs().max() < TOLERANCE * alone.std()))
    if len(rows[0]) == 2 and any(other[1::2]) and not any(other[::2]):
        return LEAK
    if any(other):
        return "its logits are not those of the documents one by one"
    return ""


NAMED = {
    VARLEN: set(inspect.signature(attention.varlen_attention).parameters),
    FLEX: {*inspect.signature(flex_attention_forward).parameters, "sliding_window"},
    SDPA: {*inspect.signature(sdpa_attention_forward).parameters, "sliding_window"},
}


def limits(kernel: str, calls: Calls) -> str:
    """What a kernel cannot do of what the model asked; empty if nothing."""
    if kernel == EAGER:
        return ""
    if not calls.sizes:
        return "the architecture does not call it"
    dropped = sorted(calls.arguments - NAMED[kernel])
    if dropped:
        return f"it drops {', '.join(dropped)}"
    if calls.dropout and kernel in (VARLEN, FLEX):
        return f"it has no dropout, the model one of {calls.dropout}"
    largest = max(map(max, calls.sizes))
    if kernel == VARLEN and largest > VARLEN_SIZE:
        return f"heads of {largest}; it takes {VARLEN_SIZE} at most"
    if kernel == FLEX and min(map(min, calls.sizes)) < FLEX_SIZE:
        return f"heads of less than {FLEX_SIZE}"
    return ""


KERNELS = {
    VARLEN: attention.varlen_attention,
    FLEX: flex_attention,
    SDPA: sdpa_attention_forward,
    EAGER: None,
}


def no_dropout(model: PreTrainedModel) -> str:
    """Why adapters on all linear layers of the model cannot have dropout; empty if they can. Changes the model.

    A mixture of experts may hold all experts' weights as one parameter, and peft's adapters of such have no dropout.
    """
    from peft import LoraConfig, get_peft_model

    try:
        get_peft_model(model, LoraConfig(r=1, lora_dropout=0.1, target_modules=ALL_LINEAR, task_type="CAUSAL_LM"))
    except ValueError as error:
        if "dropout" in str(error):
            return str(error)
    return ""


def trials(folder: Path) -> dict:
    """What a model of the config.json in `folder` can be trained with, as Architecture holds it."""
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    model = twin(config).eval()
    generator, (first, second) = torch.Generator().manual_seed(1), LENGTHS
    lengths = (first, second, second, first)
    documents = [torch.randint(1, VOCABULARY, (length,), generator=generator) for length in lengths]
    unpacked = [[tokens] for tokens in documents]
    expected = [forward(model, [row], EAGER)[0] for row in unpacked]
    wrong, wrong_unpacked = {}, {}
    for reasons, rows in ((wrong, [documents[:2], documents[2:]]), (wrong_unpacked, unpacked)):
        for name, kernel in KERNELS.items():
            calls = Calls()
            if kernel:
                AttentionInterface.register(name, calls.recording(kernel))
            reasons[name] = trial(model, name, rows, expected, calls)
    model.config._attn_implementation = EAGER
    batch = {"input_ids": documents[0][None], "labels": documents[0][None]}
    model_type, linear = config.get_text_config(decoder=True).model_type, linear_names(model)
    about = {"model_type": model_type, "linear": linear, "own_loss": own_loss(model, batch)}
    about["no_dropout"] = no_dropout(model)  # changes the model
    return {**about, "wrong": wrong, "wrong_unpacked": wrong_unpacked}


def main() -> None:
    transformers_logging.set_verbosity_error()
    torch.set_num_threads(1)  # tiny matrices
    attention.varlen_attn, attention.HALF = varlen_attn, (torch.float32,)  # in this process, which has no GPU
    print(json.dumps(trials(Path(json.loads(sys.stdin.read())))))


if __name__ == "__main__":
    run(main)
