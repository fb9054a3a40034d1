"""Write a model folder as a GGUF file, for llama.cpp and what is built on it, as Ollama.

    check_gguf(config, tokenizer)                       # before anything is trained: does llama.cpp know this model?
    write_gguf(Path("results/release/own"), Path("own-q8_0.gguf"), "q8_0")

Names of tensors are the package gguf's. llama.cpp knows a pre-tokenizer by a name that the file gives it, not by its
regular expression, so one that has no name here is refused: it would cut texts in other places.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import gguf
import jinja2
import numpy as np
from gguf.quants import quantize

from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json
from scripts.tokens.tokenization.tokenizer_files import PRE_TOKENIZER, TokenizerFiles

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
}
KINDS = {"f16": gguf.LlamaFileType.MOSTLY_F16, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
BLOCK = 32  # values of a block of Q8_0; a matrix with other rows stays in f16

LLAMA3 = PRE_TOKENIZER.replace(r"|\p{N}| ", r"|\p{N}{1,3}| ")
# what a pre-tokenizer does, as `steps` says it → llama.cpp's name (src/llama-vocab.cpp)
PRE_TOKENIZERS = {
    ("gpt2",): "gpt-2",
    ("digit", "gpt2"): "smollm",
    (PRE_TOKENIZER, "bytes"): "qwen2",
    (LLAMA3, "bytes"): "llama-bpe",
}


def steps(pre_tokenizer: dict) -> tuple[str, ...]:
    """What a pre-tokenizer of tokenizer.json does, one word or regular expression for each step."""
    kind = pre_tokenizer.get("type")
    if kind == "Sequence":
        found = ()
        for inner in pre_tokenizer["pretokenizers"]:
            found += steps(inner)
        return found
    if kind == "Split" and pre_tokenizer["behavior"] == "Isolated" and not pre_tokenizer["invert"]:
        return (pre_tokenizer["pattern"].get("Regex", "?"),)
    if kind == "Digits" and pre_tokenizer["individual_digits"]:
        return ("digit",)
    if kind == "ByteLevel" and not pre_tokenizer["add_prefix_space"]:
        if pre_tokenizer.get("use_regex", True):
            return ("gpt2",)
        return ("bytes",)
    return (f"unknown {kind}",)


def check_gguf(config: dict, tokenizer: dict) -> None:
    """Check that llama.cpp can run a model, by its config.json and its tokenizer.json. Raises UserError: it is of
    another architecture, has layers without RoPE or a scaled one, or a tokenizer that llama.cpp does not know."""
    kind = config.get("model_type")
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}  # the older name, as in Llama 3.1's
    scaling = rope.get("rope_type", rope.get("type", "default"))
    converter = "run llama.cpp's own convert_hf_to_gguf.py on the released folder, or leave `gguf` out"
    if kind not in ARCHITECTURES:
        raise UserError(f"release.gguf: {kind}: only {', '.join(ARCHITECTURES)} are written here; {converter}")
    if scaling != "default":
        raise UserError(f"release.gguf: RoPE of type {scaling} is not written here; {converter}")
    model = tokenizer["model"]
    if model["type"] != "BPE" or steps(tokenizer["pre_tokenizer"] or {}) not in PRE_TOKENIZERS:
        raise UserError(
            f"release.gguf: llama.cpp does not know this tokenizer ({model['type']},"
            f" {', '.join(steps(tokenizer['pre_tokenizer'] or {}))}): it would give texts other ids; leave `gguf` out"
        )


def check_folder(folder: Path) -> None:
    """As `check_gguf`, of the model in a folder."""
    check_gguf(read_json(folder / "config.json"), read_json(folder / "tokenizer.json"))


def write_gguf(folder: Path, path: Path, kind: str) -> None:
    """Write the model in `folder`, which has plain safetensors, to a GGUF file.

    Args:
        kind: of the matrices, `f16` or `q8_0`; vectors stay in float32.

    Raises:
        UserError: llama.cpp cannot run it, see `check_gguf`.
    """
    check_folder(folder)
    config, tokenizer = read_json(folder / "config.json"), read_json(folder / "tokenizer.json")
    architecture = ARCHITECTURES[config["model_type"]]
    with atomic(path) as temporary:
        writer = gguf.GGUFWriter(temporary, gguf.MODEL_ARCH_NAMES[architecture])
        add_shape(writer, config, KINDS[kind])
        add_tokenizer(writer, folder, config, tokenizer)
        add_tensors(writer, folder, config, architecture, kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def add_shape(writer: gguf.GGUFWriter, config: dict, file_type: gguf.LlamaFileType) -> None:
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_file_type(file_type)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_rope_dimension_count(width)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base((config.get("rope_parameters") or config)["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])


def add_tokenizer(writer: gguf.GGUFWriter, folder: Path, config: dict, tokenizer: dict) -> None:
    """The vocabulary with the kind of each token, merges, pre-tokenizer's name, end tokens and chat template."""
    tokens = [f"[PAD{number}]" for number in range(config["vocab_size"])]
    types = [gguf.TokenType.UNUSED] * len(tokens)
    for token, number in tokenizer["model"]["vocab"].items():
        tokens[number], types[number] = token, gguf.TokenType.NORMAL
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        types[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    merges = []
    for merge in tokenizer["model"]["merges"]:
        merges.append(merge if isinstance(merge, str) else " ".join(merge))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE_TOKENIZERS[steps(tokenizer["pre_tokenizer"])])
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    lead = TokenizerFiles(folder).lead
    writer.add_add_bos_token(bool(lead))
    if lead:
        writer.add_bos_token_id(lead[0])
    generation = read_json(folder / "generation_config.json")
    ends = generation["eos_token_id"]
    # that of an answer; llama.cpp finds others by their names
    writer.add_eos_token_id(ends[0] if isinstance(ends, list) else ends)
    if generation.get("pad_token_id") is not None:
        writer.add_pad_token_id(generation["pad_token_id"])
    template = folder / "chat_template.jinja"
    if template.is_file():
        writer.add_chat_template(template.read_text(encoding="utf-8"))


def add_tensors(writer: gguf.GGUFWriter, folder: Path, config: dict, architecture: gguf.MODEL_ARCH, kind: str) -> None:
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    for name, values in tensors_of(folder):
        if name == "lm_head.weight" and config.get("tie_word_embeddings"):
            continue
        new_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if new_name is None:
            raise UserError(f"release.gguf: {name}: llama.cpp has no tensor for it; leave `gguf` out")
        if architecture == gguf.MODEL_ARCH.LLAMA and ".q_proj." in name:
            values = interleaved(values, config["num_attention_heads"])
        elif architecture == gguf.MODEL_ARCH.LLAMA and ".k_proj." in name:
            values = interleaved(values, config["num_key_value_heads"])
        if values.ndim == 1:
            writer.add_tensor(new_name, values)
        elif kind == "q8_0" and values.shape[-1] % BLOCK == 0:
            quantized = quantize(values, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(new_name, quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(new_name, values.astype(np.float16))


def tensors_of(folder: Path):
    """(name, float32 values) of each tensor in a folder's safetensors."""
    import torch
    from safetensors import safe_open

    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118, it is no dict
                yield name, file.get_tensor(name).to(torch.float32).numpy()


def interleaved(values: np.ndarray, heads: int) -> np.ndarray:
    """A query or key matrix of a Llama with the two halves of each head interleaved, as llama.cpp's RoPE takes them."""
    parts = values.reshape(heads, 2, len(values) // heads // 2, *values.shape[1:])
    return parts.swapaxes(1, 2).reshape(values.shape)


TURN = "<|im_start|>{role}\n{content}<|im_end|>\n"  # of ChatML
ANSWER = "<|im_start|>assistant\n"


def modelfile(file: str, ends: list[str], render: Callable[..., str] | None) -> str:
    """Ollama's Modelfile of a GGUF file: its stops, no penalty of Ollama's own, and its chat template.

    Ollama writes templates in a language of its own, so only that of ChatML is written here, with the system prompt
    that it gives a chat without one; for another one Ollama takes the file's, where it knows it.

    Args:
        render: writes `messages` by the model's chat template, up to the answer; None where it has none.
    """
    lines = [f"FROM ./{file}", *(f"PARAMETER stop {json.dumps(end)}" for end in ends), "PARAMETER repeat_penalty 1"]
    system = chatml_system(render) if render else None
    if system:
        lines.append(f'SYSTEM """{system}"""')
    if system is not None:
        turn = TURN.format(role="{{ .Role }}", content="{{ .Content }}")
        lines.append(f'TEMPLATE """{{{{ range .Messages }}}}{turn}{{{{ end }}}}{ANSWER}"""')
    return "\n".join(lines) + "\n"


def chatml_system(render: Callable[..., str]) -> str | None:
    """The system prompt that a template of ChatML gives a chat without one, "" if none; None for any other template."""
    roles = ("system", "user", "assistant", "user")
    chat = [{"role": role, "content": f"text {number}"} for number, role in enumerate(roles)]
    turns = [TURN.format(**message) for message in chat]
    asked = "".join([*turns[1:], ANSWER])
    try:
        with_system, without = render(messages=chat), render(messages=chat[1:])
    except jinja2.TemplateError:
        return None
    if with_system != turns[0] + asked or not without.endswith(asked):
        return None
    before = re.fullmatch(r"(?s)(?:<\|im_start\|>system\n(.*)<\|im_end\|>\n)?", without.removesuffix(asked))
    if not before or '"""' in (before[1] or ""):
        return None
    return before[1] or ""
