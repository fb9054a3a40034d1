"""Make the base model: from scratch as a Qwen2, from a folder or a GGUF file, or from a revision of a hub model.

    python -m scripts.training.base --tokenizer results/tokens/tokenizer --out results/training/base --seed 42 \
        --settings '{"model": "scratch", "shape": {...}, "no_rope_layers": [3]}'

RoPE is switched off in layers by scripts/training/model/nope.py.
"""

import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError

from scripts.common.cli import run
from scripts.common.errors import MachineFault, UserError
from scripts.common.files import new_folder_beside, publish_files, read_json, write_json
from scripts.common.manifest import NAME, read_manifest, write_manifest
from scripts.common.options import command
from scripts.experiment.model_folder import OURS, PATTERNS, Shape, check_weights, content_hash
from scripts.experiment.settings.training import Base
from scripts.tokens.tokenization.base_tokenizer import write_chat_template
from scripts.tokens.tokenization.gguf_base import gguf_file, write_folder
from scripts.tokens.tokenization.tokenizer_files import TokenizerFiles

# what transformers raises for a folder that it cannot load; ImportError where a quantized model's package is missing
UNREADABLE = (AttributeError, ImportError, KeyError, OSError, RuntimeError, TypeError, ValueError, SafetensorError)
ROPE_THETA = 1_000_000  # of a model from scratch, as of Qwen2's


def write_model_manifest(folder: Path) -> dict:
    """Write the manifest of a model folder, over all its other files."""
    return write_manifest(folder, sorted(path.name for path in folder.iterdir() if path.name not in OURS))


def make_from_scratch(shape: Mapping[str, int | bool], seed: int, tokenizer: Path, out: Path) -> None:
    """Write a randomly initialised Qwen2 model of the given shape, keys of its config.json, and the tokenizer."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    vocabulary = AutoTokenizer.from_pretrained(tokenizer)
    config = Qwen2Config(
        vocab_size=len(vocabulary),
        eos_token_id=vocabulary.eos_token_id,
        pad_token_id=vocabulary.pad_token_id,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        use_cache=True,
        **{name: value for name, value in asdict(Shape(**shape)).items() if value is not None},
    )
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(config)
    model.save_pretrained(out)
    for name in read_manifest(tokenizer)["files"]:
        shutil.copyfile(tokenizer / name, out / name)
    logging.info(f"base: {model.num_parameters():,} parameters from scratch")


def copy_or_download(model: str, revision: str | None, out: Path) -> None:
    """Copy a model from a folder, or download it from the hub, to `out`."""
    if Path(model).is_dir():
        files = sorted(set().union(*map(Path(model).glob, PATTERNS)))
        if not (Path(model) / "config.json").is_file() or not any(path.suffix == ".safetensors" for path in files):
            raise UserError(f"training.base.model: {model} needs config.json and .safetensors weights")
        for path in files:
            if not path.is_file():
                raise UserError(f"training.base.model: {path}: not a regular file; copy it again")
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
        raise UserError(f"training.base: the hub has no {model} at revision {revision}, or needs a login") from error
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        raise MachineFault(
            f"training.base.model: cannot download {model} ({type(error).__name__}); it needs a network, or a folder"
        ) from error
    shutil.rmtree(out / ".cache", ignore_errors=True)


def check_loads(folder: Path, name: str) -> bool:
    """Check that transformers loads the model in `folder`, with every weight that its config.json asks for.

    Args:
        name: `training.base.model`, for errors.

    Returns:
        Whether config.json was mended: it tied input and output embeddings, and the weights hold two different ones, as
        a merge makes them. transformers loads both, but whatever reads the config alone would drop one.

    Raises:
        UserError: the weights cannot be loaded, some are missing, which transformers would fill with random numbers,
            one is not finite, or the tokenizer has ids beyond the embeddings.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    options = {"dtype": "auto", "local_files_only": True, "output_loading_info": True}
    try:
        model, found = AutoModelForCausalLM.from_pretrained(folder, **options)
    except UNREADABLE as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"training.base.model: {name}: transformers cannot load it: {first}") from error
    missing, other = sorted(found["missing_keys"]), sorted(map(str, found["mismatched_keys"]))
    if missing or other:
        raise UserError(
            f"training.base.model: {name}: {len(missing) + len(other)} weights are not those that its config.json asks"
            f" for, such as {(missing + other)[0]}; give the model its own files"
        )
    for parameter, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise UserError(
                f"training.base.model: {name}: {parameter} holds a number that is not finite; copy it again"
            )
    rows, ids = model.get_input_embeddings().weight.shape[0], TokenizerFiles(folder).vocab_size
    if ids > rows:
        raise UserError(
            f"training.base.model: {name}: the tokenizer has ids up to {ids - 1}, the model embeddings of {rows}; give"
            " the model its own tokenizer, or resize its embeddings"
        )
    tied = model.config.get_text_config().tie_word_embeddings
    if not tied or model.get_output_embeddings().weight is model.get_input_embeddings().weight:
        return False
    write_json(folder / "config.json", read_json(folder / "config.json") | {"tie_word_embeddings": False})
    logging.info(
        f"base: {name} ties its embeddings by config.json, but its weights differ: they are untied from here on"
    )
    return True


def base(settings: Base, seed: int, tokenizer: Path | None, out: Path) -> dict:
    """Fill the folder `out` with the base model; returns its manifest.

    Args:
        seed, tokenizer: of a model from scratch.

    Raises:
        UserError: the model cannot be read, its hash is not `settings.sha256`, or it lacks a layer to change.
    """
    from scripts.training.model.nope import convert_to_nope

    with new_folder_beside(out) as new_folder:
        if settings.model == "scratch":
            make_from_scratch(settings.shape, seed, tokenizer, new_folder)
        elif settings.is_gguf:
            write_folder(gguf_file(settings), new_folder)
        else:
            copy_or_download(settings.model, settings.revision, new_folder)
            check_weights(new_folder)
        manifest = write_model_manifest(new_folder)
        digest = content_hash(manifest)
        if settings.sha256 and settings.sha256 != digest and not settings.is_gguf:
            raise UserError(
                f"training.base.sha256: the content of {settings.model} has {digest}, not {settings.sha256};"
                " restore the folder, or correct the setting"
            )
        if settings.no_rope_layers:
            convert_to_nope(new_folder, settings.no_rope_layers)
        if settings.chat_template:
            write_chat_template(settings.chat_template, new_folder)
        untied = check_loads(new_folder, settings.model)
        if settings.no_rope_layers or settings.chat_template or untied:
            manifest = write_model_manifest(new_folder)
            digest = content_hash(manifest)
        publish_files(new_folder, out, last=NAME)
    logging.info(f"base: content {digest}")
    return manifest


def make_base(
    settings: Base, out: Path, tokenizer: Path | None = None, seed: int = 0, folder: str | None = None
) -> None:
    """See `base`. `folder`: where the model lies, in place of `model` of the settings."""
    base(settings.model_copy(update={"model": folder} if folder else {}), seed, tokenizer, out)


if __name__ == "__main__":
    run(command(make_base))
