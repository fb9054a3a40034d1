"""The base model: one hash of its folder's content, the settings that determine it, and its shape for the plan.

    content = folder_content(Path("/models/Qwen2.5-1.5B"))

The hash does not depend on the folder's path and on other files in it. Hashing 15 GB takes seconds, and the rules ask
at each start: so files are hashed again only where they changed.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.known_hashes import NOTES, KnownHashes
from scripts.experiment.settings.record import to_dict, unknown_key_hint
from scripts.experiment.settings.training import Base

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


@cache
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


# what transformers loads; a folder or hub repository may hold the same weights in other formats too, or a README
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
POINTER = b"version https://git-lfs.github.com/"
INDEX = "model.safetensors.index.json"
OURS = {"manifest.json"}  # what stagecraft writes beside a model


def model_files(folder: Path) -> list[Path]:
    """The files of a model's folder that transformers loads, sorted."""
    files = set()
    for pattern in PATTERNS:
        for path in folder.glob(pattern):
            if path.is_file():
                files.add(path)
    return sorted(path for path in files if path.name not in OURS)


def read_object(path: Path) -> dict:
    """The JSON object in a file of the base. Raises UserError: it is missing, or is none."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise UserError(f"training.base.model: {path}: must hold a JSON object, not {content!r:.40}; copy it again")
    return content


def check_weights(folder: Path) -> None:
    """Check that a folder's weights are whole and those of its config.json, by their headers, without loading them.

    Raises:
        UserError: a file is missing, cut short, a pointer of git-lfs or no safetensors, or there are other layers, or
            another vocabulary, than config.json says.
    """
    key = "training.base.model"
    for path in model_files(folder):
        with path.open("rb") as file:
            if file.read(len(POINTER)) == POINTER:
                raise UserError(f"{key}: {path}: a pointer of git-lfs, not the file; run `git lfs pull` in {folder}")
    config = read_object(folder / "config.json")
    expected = weight_map(folder)
    for name in sorted(set(expected.values())):
        if not (folder / name).is_file():
            raise UserError(f"{key}: {folder / name}: missing, and {INDEX} names it; copy the folder again")
    shapes = {}
    for path in sorted(folder.glob("*.safetensors")):
        shapes |= tensor_shapes(path)
    missing = [tensor for tensor in expected if tensor not in shapes]
    if missing:
        raise UserError(f"{key}: {folder}: {missing[0]} is in no file of weights; copy the folder again")
    layers = {match[1] for name in shapes if (match := re.search(r"(?:^|\.)layers\.(\d+)\.", name))}
    if layers and len(layers) != config.get("num_hidden_layers", len(layers)):
        raise UserError(
            f"{key}: {folder}: weights of {len(layers)} layers, config.json says {config['num_hidden_layers']}; give"
            " the model its own config.json"
        )
    embedding = next((shape for name, shape in shapes.items() if name.endswith("embed_tokens.weight")), None)
    said = [config.get("vocab_size"), config.get("hidden_size")]
    if embedding and None not in said and embedding != said:
        raise UserError(
            f"{key}: {folder}: weights of {embedding[0]} tokens × {embedding[1]} values, config.json says"
            f" {said[0]} × {said[1]}; give the model its own config.json"
        )


def weight_map(folder: Path) -> dict[str, str]:
    """Tensor → its file, as the index of a model in several files says; empty where there is no index. Raises
    UserError: the index is damaged."""
    if not (folder / INDEX).is_file():
        return {}
    files = read_object(folder / INDEX).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
        raise UserError(f"training.base.model: {folder / INDEX}: names no files of weights; copy it again")
    return files


def tensor_shapes(path: Path) -> dict[str, list[int]]:
    """Name → shape of the tensors in a file of safetensors, out of its header. Raises UserError: it is none, or cut
    short."""
    if not path.is_file():  # a pipe would be waited for without end
        raise UserError(f"training.base.model: {path}: not a regular file; copy it again")
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        size = 8 + length + max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
        shapes = {name: tensor["shape"] for name, tensor in header.items()}
    except (ValueError, LookupError, TypeError, AttributeError, MemoryError, OverflowError) as error:
        raise UserError(f"training.base.model: {path}: not a file of safetensors; copy it again") from error
    if path.stat().st_size != size:
        raise UserError(
            f"training.base.model: {path}: {path.stat().st_size:,} bytes, its header says {size:,}; copy it again"
        )
    return shapes


def shape_of_folder(folder: Path) -> Shape | None:
    """The shape of the model in a folder, with the sizes of its weights; None where its config.json does not say it."""
    if not (folder / "config.json").is_file():
        return None
    config, tensors = read_object(folder / "config.json"), {}
    names = set(weight_map(folder).values()) or {"model.safetensors"}
    for path in [folder / name for name in sorted(names)]:
        for name, sizes in tensor_shapes(path).items() if path.is_file() else ():
            tied = config.get("tie_word_embeddings") and name == "lm_head.weight"  # which some files hold once more
            if tied or name.endswith("inv_freq"):
                continue
            together = re.sub(r"\.experts\.\d+\.", ".experts.", name)
            if together != name:
                sizes = [tensors.get(together, [0])[0] + 1, *sizes]
            tensors[together] = sizes
    if not tensors and config.get("model_type") not in (None, "qwen2"):
        config, tensors = as_transformers_makes_it(folder, config)
    return Shape.from_config(config, tensors or None)


def as_transformers_makes_it(folder: Path, config: dict) -> tuple[dict, dict[str, list[int]]]:
    """(config.json with its class' defaults, name → sizes of the weights) of a model whose weights are not here, made
    without memory; as given, and no weights, where transformers makes no text model of it."""
    try:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        whole = AutoConfig.from_pretrained(folder, local_files_only=True).get_text_config(decoder=True)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(whole)
    except (AttributeError, ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError):
        return config, {}
    return whole.to_dict(), {name: list(weight.shape) for name, weight in model.named_parameters()}


def content_hash(manifest: dict) -> str:
    """One sha256 over the names and hashes of a model folder's files."""
    lines = [f"{name} {file['sha256']}\n" for name, file in sorted(manifest["files"].items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def folder_content(folder: Path, notes: Path = NOTES) -> str:
    """The content hash of the model in `folder`, as `training.base.sha256` has it."""
    hashes = KnownHashes(notes)
    files = {path.name: {"sha256": hashes.sha256(path)} for path in model_files(folder)}
    hashes.save()
    return content_hash({"files": files})


def settings_of_base(base: Base) -> dict:
    """The settings as plain values: of a folder its content, not its path.

    The shape of a model that exists is for the plan alone. A hub model is pinned by its revision.

    Raises:
        UserError: the content does not match `sha256`.
    """
    if base.model == "scratch":
        return to_dict(base)
    path = Path(base.model)
    if base.package is None and (path.is_dir() or path.suffix == ".gguf"):
        if path.is_dir():
            content = folder_content(path)
        else:
            hashes = KnownHashes()
            content = hashes.sha256(path)
            hashes.save()
        if base.sha256 not in (None, content):
            raise UserError(
                f"training.base.sha256: the content of {base.model} has {content}, not {base.sha256}; restore the"
                " folder, or correct the setting"
            )
        base = base.model_copy(update={"model": "folder" if path.is_dir() else "file.gguf", "sha256": content})
    return {key: value for key, value in to_dict(base).items() if key != "shape"}


def description(base: Mapping[str, str | None]) -> str:
    """What the base is, in words, for plan and report: a GGUF file's quantized weights are dequantized. `base`:
    `training.base` as plain values."""
    if base.get("package"):
        return f"{base['package']}, {base['file']}, dequantized to float32"
    if base["model"].endswith(".gguf"):
        return f"{base['model']}, dequantized to float32"
    return base["model"]


def short_name(base: Base) -> str:
    """What the base is called: the name of its file or folder, or its name on the hub."""
    if base.file:
        return Path(base.file).stem
    return base.model.rstrip("/").rpartition("/")[2].removesuffix(".gguf")


def shape_of_base(base: Base, vocab_size: int | None) -> Shape | None:
    """The shape of the base; None where neither the settings nor a folder give it. `vocab_size`: of the tokenizer that
    is learned for a base from scratch."""
    if base.shape is None:
        return shape_of_folder(Path(base.model))
    shape = Shape(**base.shape)
    if base.model == "scratch":
        return replace(shape, vocab_size=vocab_size)
    return shape
