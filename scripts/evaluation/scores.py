"""The scored documents of all models side by side, seen to be the same ones."""

import itertools
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.common.cli import UserError
from scripts.common.files import read_json, read_jsonl, sha256_file
from scripts.evaluation.statistics import METRICS

AGAIN = "delete the folder and run again"


class Documents(NamedTuple):
    """The test documents of a dataset, scored by every model."""

    ids: list[str]
    languages: np.ndarray  # str [documents]
    columns: np.ndarray  # float64 [documents, models * 3]: nats, tokens, bytes of each model in turn


def read_items(path: Path) -> dict[str, dict[str, tuple[str, list[float]]]]:
    """`{dataset: {id: (language, [nats, tokens, bytes])}}` of one model.

    Raises:
        UserError: the file is unreadable, or an item is incomplete, repeated or holds a number that is none.
    """
    items = {}
    for number, item in enumerate(read_jsonl(path), 1):
        try:
            names = dataset, identity, language = item["dataset"], item["id"], item["language"]
            figures = [item["nll"], item["tokens"], item["bytes"]]
        except (KeyError, TypeError) as error:
            raise UserError(f"{path}: line {number}: no scored document, {error}; {AGAIN}") from error
        if not all(isinstance(name, str) for name in names):
            raise UserError(f"{path}: line {number}: dataset, id and language must be text, not {names}; {AGAIN}")
        # a loss that overflowed is written as null
        if not all(isinstance(figure, int | float) and math.isfinite(figure) and figure >= 0 for figure in figures):
            said = f"nll, tokens, bytes are {figures}"
            raise UserError(f"{path}: line {number}: {identity}: {said}; has the model diverged?")
        if identity in items.setdefault(dataset, {}):
            raise UserError(f"{path}: line {number}: {identity} of {dataset} is there twice; {AGAIN}")
        items[dataset][identity] = (language, figures)
    return items


def read_scored(results: Path, models: list[str], datasets: list[str]) -> dict[str, Documents]:
    """The test documents by dataset, the same ones for all models.

    Raises:
        UserError: models were scored on different test data, or an item file does not hold what scores.json says.
    """
    folders = [results / "evaluation/perplexity" / model for model in models]
    items = [read_items(folder / "items.jsonl.zst") for folder in folders]
    scores = [read_json(folder / "scores.json") for folder in folders]
    scored = {}
    for dataset in datasets:
        ids = list(items[0].get(dataset, {}))
        if not ids:
            raise UserError(
                f"{folders[0] / 'items.jsonl.zst'}: no documents of {dataset}; its test split must not be empty"
            )
        for folder, said, found in zip(folders, scores, items, strict=True):
            check_same(folder, dataset, said, scores[0], found.get(dataset, {}), items[0][dataset])
        rows = [list(itertools.chain(*(found[dataset][identity][1] for found in items))) for identity in ids]
        languages = np.array([items[0][dataset][identity][0] for identity in ids])
        scored[dataset] = Documents(ids, languages, np.array(rows, dtype=np.float64))
    return scored


def read_scoring(results: Path, model: str, folder: Path) -> dict:
    """What scores.json says of how a model was scored: hashes of model and test data, versions, device.

    Raises:
        UserError: it was another model than the one that is in `folder` now.
    """
    path = results / "evaluation/perplexity" / model / "scores.json"
    said = read_json(path)
    found = sha256_file(folder / "manifest.json")
    if said.get("model_sha256") != found:
        raise UserError(f"{path}: of a model {said.get('model_sha256')}, {folder} holds {found}; {AGAIN}")
    return {key: said.get(key) for key in ("model_sha256", "data", "versions", "device")}


def check_same(folder: Path, dataset: str, said: dict, base_said: dict, found: dict, base_found: dict) -> None:
    """See that a model was scored on the very documents that the base was, and that its two files belong together.

    Raises:
        UserError: it was not, or they do not.
    """
    path = folder / "scores.json"
    try:
        data, base_data, score = said["data"][dataset], base_said["data"][dataset], said["scores"][dataset]["all"]
        documents, bits = score["documents"], score["bits_per_byte"]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: {error} is missing for {dataset}; {AGAIN}") from error
    if data != base_data:
        raise UserError(f"{path}: {dataset}: scored on test data {data}, the base on {base_data}; {AGAIN}")
    items = folder / "items.jsonl.zst"
    for identity in sorted(found.keys() ^ base_found.keys()):
        where = "only here" if identity in found else "missing here"
        raise UserError(f"{items}: {identity} of {dataset} is {where}, not with the base; {AGAIN}")
    for identity, (language, figures) in found.items():
        base_language, base_figures = base_found[identity]
        if (language, figures[2]) != (base_language, base_figures[2]):
            raise UserError(
                f"{items}: {identity} of {dataset} is {figures[2]} bytes of {language},"
                f" with the base {base_figures[2]} bytes of {base_language}; {AGAIN}"
            )
    computed = float(METRICS["bits_per_byte"](np.sum([figures for _, figures in found.values()], axis=0)))
    if documents != len(found) or bits is None or not math.isclose(bits, computed, rel_tol=1e-6):
        raise UserError(
            f"{path}: {dataset}: says {documents} documents at {bits} bits per byte,"
            f" items.jsonl.zst holds {len(found)} at {computed:.6f}; {AGAIN}"
        )
