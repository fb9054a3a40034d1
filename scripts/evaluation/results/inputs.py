"""What made a result: configuration, pins, and the hashes of code, data and models, gathered from their manifests."""

import importlib.metadata
import platform
from pathlib import Path

from scripts.common.cli import UserError
from scripts.common.files import read_json

PACKAGES = [
    "snakemake",
    "dvc",
    "torch",
    "transformers",
    "tokenizers",
    "accelerate",
    "deepspeed",
    "fastokens",
    "numpy",
    "numba",
]


def installed(package: str) -> str | None:
    """The installed version of a package; None where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of each file that a folder's manifest names, by file name.

    Raises:
        UserError: the manifest is missing or is no manifest.
    """
    path = folder / "manifest.json"
    try:
        return {name: file["sha256"] for name, file in read_json(path)["files"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a manifest: no `files` with a sha256 each; delete it and run again") from error


def model_folder(model: str) -> str:
    """Where a stage's model or the base is, below the results root."""
    return "training/base" if model == "base" else f"training/train/{model}"


def data_folders(experiment: dict) -> list[str]:
    """The folders below the results root that hold documents, tokenizer and shards, in the order of the flow."""
    stages = experiment["training"]["train"].values()
    shards = {f"tokens/pack/{stage['data']}-{stage['sequence_length']}" for stage in stages}
    datasets = [f"corpus/compose/{name}" for name in sorted(experiment["corpus"]["compose"])]
    corpus = ["corpus/deduplicate", "corpus/split"] if "sources" in experiment else []
    return [*corpus, *datasets, "tokens/tokenizer", *sorted(shards)]


def gather(experiment: dict, sources: dict, codes: dict, results: Path, raw: Path) -> dict:
    """The `inputs` of eval.json.

    Args:
        experiment: the checked experiment.
        sources: the rows of the source table by name.
        codes: a fingerprint per rule.
        results: the results root.
        raw: the folder with a manifest `{source}.json` per archive.

    Raises:
        UserError: a manifest is missing or malformed.
    """
    stages = experiment["training"]["train"]
    return {
        "experiment": experiment,
        "seed": experiment["seed"],
        "sources": {name: {**row, "archive": read_json(raw / f"{name}.json")} for name, row in sources.items()},
        "code": codes,
        "data": {
            **{f"corpus/filter/{name}": hashes(results / "corpus/filter" / name) for name in sources},
            **{folder: hashes(results / folder) for folder in data_folders(experiment)},
        },
        "models": {model: hashes(results / model_folder(model)) for model in ["base", *stages]},
        "versions": {"python": platform.python_version(), **{package: installed(package) for package in PACKAGES}},
    }
