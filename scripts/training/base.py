"""Make or bring the base model: a Qwen2-architecture model from scratch, a folder, or a hub model at a revision.

    python -m scripts.training.base --tokenizer results/tokens/tokenizer --out results/training/base \
        --settings '{"model": "scratch", "shape": {...}, "seed": 42, "no_rope_layers": [3]}'

RoPE is switched off in layers as scripts/training/model/nope.py says; the logits are saved as
logits_fingerprint.py beside it says.
"""

import hashlib
import logging
import shutil
import tempfile
from pathlib import Path

from scripts.common.cli import UserError, parser, run, settings
from scripts.common.manifest import read_manifest, write_manifest

# what transformers loads; a hub repository may hold the same weights in other formats besides
PATTERNS = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]


def content_hash(manifest: dict) -> str:
    """One sha256 over the names and hashes of a model folder's files."""
    lines = [f"{name} {file['sha256']}\n" for name, file in sorted(manifest["files"].items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def manifest_of(folder: Path) -> dict:
    """Write the manifest of a model folder, over all files but the fingerprint of its logits."""
    from scripts.training.model.logits_fingerprint import NAME

    return write_manifest(folder, sorted(p.name for p in folder.iterdir() if p.name not in {NAME, "manifest.json"}))


def from_scratch(shape: dict, seed: int, tokenizer: Path, out: Path) -> None:
    """Write a randomly initialised Qwen2 model of the given shape, and the tokenizer, to `out`."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    words = AutoTokenizer.from_pretrained(tokenizer)
    rope = {"rope_type": "default", "rope_theta": shape.pop("rope_theta")}
    config = Qwen2Config(
        vocab_size=len(words),
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
        rope_parameters=rope,
        use_cache=True,
        **shape,
    )
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(config)
    model.save_pretrained(out)
    for name in read_manifest(tokenizer)["files"]:
        shutil.copyfile(tokenizer / name, out / name)
    logging.info(f"base: {model.num_parameters():,} parameters from scratch")


def bring(model: str, revision: str | None, out: Path) -> None:
    """Copy a model from a folder, or download it from the hub, to `out`.

    Raises:
        UserError: the folder holds no model, or the hub cannot be reached or has no such model or revision.
    """
    if Path(model).is_dir():
        files = sorted({path for pattern in PATTERNS for path in Path(model).glob(pattern)})
        if not (Path(model) / "config.json").is_file() or not any(path.suffix == ".safetensors" for path in files):
            raise UserError(f"training.base.model: {model} needs config.json and .safetensors weights")
        for path in files:
            shutil.copyfile(path, out / path.name)
        return
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        snapshot_download(model, revision=revision, allow_patterns=PATTERNS, local_dir=out)
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise UserError(f"training.base: the hub has no {model} at revision {revision}, or wants a login") from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise UserError(
            f"training.base.model: cannot bring {model} ({type(error).__name__}); it needs a network, or give a folder"
        ) from error
    shutil.rmtree(out / ".cache", ignore_errors=True)


def base(
    model: str,
    tokenizer: Path | None,
    out: Path,
    seed: int,
    shape=None,
    revision=None,
    sha256=None,
    no_rope_layers=(),
    rope_theta=None,
) -> dict:
    """Fill the folder `out` with the base model and return its manifest.

    Raises:
        UserError: the model cannot be had, its hash as brought is not `sha256`, or it has no such layers.
    """
    from scripts.training.model import logits_fingerprint
    from scripts.training.model.nope import convert, set_rope_theta

    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".base.") as temporary:
        made = Path(temporary)
        if model == "scratch":
            from_scratch(dict(shape), seed, tokenizer, made)
        else:
            bring(model, revision, made)
        manifest = manifest_of(made)
        found = content_hash(manifest)
        if sha256 and sha256 != found:
            raise UserError(f"training.base.sha256: {sha256} is asked for, the content of {model} is {found}")
        if (made / logits_fingerprint.NAME).is_file():  # a folder that stagecraft made
            logits_fingerprint.check(logits_fingerprint.load(made), made)
        if no_rope_layers:
            convert(made, list(no_rope_layers))
        if rope_theta:
            set_rope_theta(made, rope_theta)
        if no_rope_layers or rope_theta:
            manifest = manifest_of(made)
            found = content_hash(manifest)
        logits_fingerprint.save(made, logits_fingerprint.load(made))
        for path in sorted(made.iterdir(), key=lambda path: path.name == "manifest.json"):
            path.replace(out / path.name)
    logging.info(f"base: content {found}")
    return manifest


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--tokenizer", type=Path, help="the tokenizer's folder; only from scratch")
    arguments.add_argument("--settings", type=settings, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    base(tokenizer=given.tokenizer, out=given.out, **{"seed": 0, **given.settings})


if __name__ == "__main__":
    run(main)
