"""Load the model that a suite scores, generate with it, and write the suite's two files.

    model = load(Path("results/training/base"))
    completions, engine = model.generate(["def add(a, b):\\n"], settings, seed=42)
    write_scores("qa", SUITE, out, model.folder, items, hashes, engine=engine)

A model runs on the GPU if there is one, in the precision its weights are saved in, else on the CPU in float32. torch is
imported where it is used, as the suites, which import this module, are imported with the settings of an experiment.
"""

import logging
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scripts.common.errors import UserError
from scripts.common.files import sha256_file, write_json, write_jsonl
from scripts.common.manifest import NAME, read_manifest
from scripts.evaluation.generation.examples import Prompt
from scripts.evaluation.metrics.metric import Suite, by_language, score_line, summarize
from scripts.experiment.settings.suites import Generation

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from scripts.tokens.tokenization.encoder import Encoder


class ScoredModel(NamedTuple):
    """A model with its tokenizer."""

    folder: Path
    model: "PreTrainedModel"
    encoder: "Encoder"

    def generate(
        self,
        prompts: list[Prompt],
        settings: Generation,
        seed: int,
        finished: Callable[[int, str], bool] | None = None,
        label: str = "generate",
    ) -> tuple[list[list[str]], dict]:
        """`settings.samples` completions per prompt, in the order of the prompts, and the engine's name and version.

        Args:
            finished: see `generate` of transformers_engine.py.

        Raises:
            UserError: see `generate` of transformers_engine.py.
        """
        from scripts.evaluation.generation.transformers_engine import ENGINE, generate

        return generate(self.model, self.encoder, prompts, settings, seed, finished, label), ENGINE


def load(folder: Path) -> ScoredModel:
    """The model in a folder, ready to be scored. Raises UserError: files do not match their manifest, or a weight is
    not finite."""
    from transformers.utils import logging as transformers_logging

    from scripts.tokens.tokenization.encoder import Encoder

    transformers_logging.disable_progress_bar()
    read_manifest(folder)
    encoder = Encoder(folder)
    return ScoredModel(folder, load_weights(folder), encoder)


def load_weights(folder: Path) -> "PreTrainedModel":
    """The weights in a folder, on the GPU if there is one. Raises UserError: a weight is not finite."""
    import torch

    from scripts.training.model.float32_products import float32_products
    from scripts.training.model.loading import load_model

    kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cpu":
        float32_products()
    model = load_model(folder, "auto" if kind == "cuda" else torch.float32).to(kind).eval()
    for name, weight in model.named_parameters():
        if not weight.isfinite().all():
            raise UserError(f"{folder}: the model has diverged: {name} is not finite")
    return model


def device_name() -> str:
    """The device that models run on here: a GPU's name, or `cpu`."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return "cpu"


def model_and_environment(folder: Path) -> dict:
    """The part of every scores.json that names the model, library versions and device."""
    import torch
    import transformers

    from scripts.training.model.float32_products import float32_products

    on_gpu = torch.cuda.is_available()
    return {
        "model": folder.name,
        "model_sha256": sha256_file(folder / NAME),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "device": device_name(),
        **({} if on_gpu else {"float32_products": float32_products()}),
    }


def write_scores(
    name: str, suite: Suite, out: Path, folder: Path, items: list[dict], data: dict[str, str], **facts
) -> dict:
    """Write `items.jsonl.zst` and `scores.json`, and return the latter; log a line for each dataset.

    Args:
        name: of the suite.
        folder: of the model.
        data: the sha256 of each dataset's file.
        facts: further content of scores.json, e.g. `engine` and `settings`.
    """
    scores = {}
    for dataset in data:
        of_dataset = [item for item in items if item["dataset"] == dataset]
        scores[dataset] = by_language(of_dataset, lambda subset: summarize(suite, subset))
        logging.info(score_line(name, dataset, suite, scores[dataset]["all"]))
    write_jsonl(out / "items.jsonl.zst", items)
    result = {**model_and_environment(folder), "data": data, "scores": scores, **facts}
    write_json(out / "scores.json", result)
    return result
