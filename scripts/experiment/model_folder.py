"""One hash of the content of a transformers model's folder, independent of its path and of other files in it.

    content = folder_content(Path("/models/Qwen2.5-1.5B"))

Hashing 15 GB takes seconds, and the rules ask at each start: so files are hashed again only where they changed.
"""

import hashlib
from pathlib import Path

from scripts.common.known_hashes import NOTES, KnownHashes

# what transformers loads; a folder or hub repository may hold the same weights in other formats too, or a README
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
# a manifest and logits that stagecraft wrote beside a model
OURS = {"manifest.json", "logits.json"}


def model_files(folder: Path) -> list[Path]:
    """The files of a model's folder that transformers loads, sorted."""
    files = {path for pattern in PATTERNS for path in folder.glob(pattern) if path.is_file()}
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
