"""The model that a suite scores, the examples it is scored on, and the two files that are written of it.

    subject = load(Path("results/training/base"))
    write(out, subject, items, hashes, scores)

A model runs on the GPU where there is one, in the precision its weights are saved in, else on the CPU in float32.
"""

import platform
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from transformers import PreTrainedModel
from transformers.utils import logging as transformers_logging

from scripts.common.files import sha256_file, write_json, write_jsonl
from scripts.common.manifest import NAME, read_manifest
from scripts.tokens.encode import Encoder
from scripts.training import identity
from scripts.training.models import load_model


class Subject(NamedTuple):
    """A model with its tokenizer."""

    folder: Path
    model: PreTrainedModel
    encoder: Encoder


def load(folder: Path) -> Subject:
    """The model in a folder, ready to be scored.

    Raises:
        UserError: files are not what their manifest says, or the model is not the one that was saved.
    """
    transformers_logging.disable_progress_bar()
    read_manifest(folder)
    encoder = Encoder(folder)
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(folder, "auto" if kind == "cuda" else torch.float32)
    identity.check(model, folder)
    return Subject(folder, model.to(kind).eval(), encoder)


def device() -> str:
    """What models run on here: a GPU's name, or `cpu`."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def origin(folder: Path) -> dict:
    """What every scores.json says of how it came about: the model, versions, device."""
    return {
        "model": folder.name,
        "model_sha256": sha256_file(folder / NAME),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "device": device(),
    }


def write(out: Path, subject: Subject, items: list[dict], data: dict[str, str], scores: dict, **facts) -> dict:
    """Write `items.jsonl.zst` and `scores.json`, and return the latter.

    Args:
        data: the sha256 of each dataset's file.
        facts: what else made the scores, e.g. `engine` and `settings`.
    """
    write_jsonl(out / "items.jsonl.zst", items)
    result = {**origin(subject.folder), "data": data, "scores": scores, **facts}
    write_json(out / "scores.json", result)
    return result
