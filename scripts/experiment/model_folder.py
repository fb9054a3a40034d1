"""The base model: one hash of its folder's content, the settings that determine it, and its shape for the plan.

    content = folder_content(Path("/models/Qwen2.5-1.5B"))

The hash does not depend on the folder's path and on other files in it. Hashing 15 GB takes seconds, and the rules ask
at each start: so files are hashed again only where they changed.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.known_hashes import NOTES, KnownHashes
from scripts.experiment.model_shape import Shape
from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.training import Base

# what transformers loads; a folder or hub repository may hold the same weights in other formats too, or a README
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
# a manifest and logits that stagecraft wrote beside a model
OURS = {"manifest.json", "logits.json"}


def model_files(folder: Path) -> list[Path]:
    """The files of a model's folder that transformers loads, sorted."""
    files = set()
    for pattern in PATTERNS:
        for path in folder.glob(pattern):
            if path.is_file():
                files.add(path)
    return sorted(path for path in files if path.name not in OURS)


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
    """What the base is, in words, for plan and report: a GGUF file's quantized weights are dequantized.

    Args:
        base: `training.base` as plain values.
    """
    if base.get("package"):
        return f"{base['package']}, {base['file']}, dequantized to float32"
    if base["model"].endswith(".gguf"):
        return f"{base['model']}, dequantized to float32"
    return base["model"]


def shape_of_base(base: Base, vocab_size: int | None) -> Shape | None:
    """The shape of the base; None where neither the settings nor a folder give it.

    Args:
        vocab_size: of the tokenizer that is learned for a base from scratch.
    """
    if base.shape is None:
        config = Path(base.model) / "config.json"
        return Shape.from_config(read_json(config)) if config.is_file() else None
    shape = Shape(**base.shape)
    return replace(shape, vocab_size=vocab_size) if base.model == "scratch" else shape
