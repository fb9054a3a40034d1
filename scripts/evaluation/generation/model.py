"""The model that a suite scores, what it writes when asked, and the two files that are written of it.

    subject = load(Path("results/training/base"))
    texts, engine = subject.answers(["def add(a, b):\\n"], settings)
    write(out, subject, items, hashes, scores, engine=engine)

A model runs on the GPU where there is one, in the precision its weights are saved in, else on the CPU in float32.
"""

import argparse
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from transformers import PreTrainedModel
from transformers.utils import logging as transformers_logging

from scripts.common.cli import parser, settings
from scripts.common.files import sha256_file, write_json, write_jsonl
from scripts.common.manifest import NAME, read_manifest
from scripts.evaluation.generation import vllm_engine
from scripts.evaluation.generation.transformers_engine import ENGINE, Prompt, generate
from scripts.tokens.packing.encoder import Encoder
from scripts.training.model import logits_fingerprint
from scripts.training.model.loading import adapter_base, load_model


class Subject(NamedTuple):
    """A model with its tokenizer.

    Attributes:
        python: of vLLM's environment, where vLLM writes; None where transformers does.
    """

    folder: Path
    model: PreTrainedModel
    encoder: Encoder
    python: str | None

    def answers(
        self,
        prompts: list[Prompt],
        settings: dict,
        finished: Callable[[int, str], bool] | None = None,
        label: str = "generate",
    ) -> tuple[list[list[str]], dict]:
        """(`samples` texts for each prompt, in the order of the prompts; the engine that wrote them). Asked only once.

        Args:
            finished: see `generate`; vLLM writes on to the end.

        Raises:
            UserError: see `generate` of generate.py and of vllm_engine.py.
        """
        if not self.python:
            return generate(self.model, self.encoder, prompts, settings, finished, label), ENGINE
        precision, limit = str(self.model.dtype).removeprefix("torch."), self.model.config.max_position_embeddings
        with tempfile.TemporaryDirectory() as plain:
            folder = self.folder
            if adapter_base(folder):  # an adapter, which was added to its base
                self.model.save_pretrained(plain)
                folder = Path(plain)
            self.model.to("meta")  # vLLM loads it anew, and wants the memory
            torch.cuda.empty_cache()
            return vllm_engine.generate(folder, precision, self.encoder, limit, prompts, settings, self.python)


def command(doc: str, writes: bool = True) -> argparse.ArgumentParser:
    """The command line of a suite: a model folder, settings, and where to write; what writes, if the model does."""
    arguments = parser(doc)
    arguments.add_argument("--model", type=Path, required=True, help="model folder")
    arguments.add_argument("--settings", type=settings, required=True, help="the suite's settings, and the seed")
    arguments.add_argument("--out", type=Path, required=True, help="folder for items and scores")
    if writes:
        arguments.add_argument("--vllm", help="Python of vLLM's environment; without it transformers writes")
    return arguments


def load(folder: Path, python: str | None = None) -> Subject:
    """The model in a folder, ready to be scored.

    Args:
        python: of vLLM's environment, if vLLM is to write.

    Raises:
        UserError: files are not what their manifest says, or the model is not the one that was saved.
    """
    transformers_logging.disable_progress_bar()
    read_manifest(folder)
    encoder = Encoder(folder)
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(folder, "auto" if kind == "cuda" else torch.float32)
    logits_fingerprint.check(model, folder)
    return Subject(folder, model.to(kind).eval(), encoder, python)


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
