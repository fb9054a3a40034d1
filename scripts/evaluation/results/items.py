"""The scored items of all models side by side, seen to be the same ones."""

import itertools
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.common.cli import UserError
from scripts.common.files import read_json, read_jsonl, sha256_file
from scripts.evaluation.metrics.metric import Suite

AGAIN = "delete the folder and run again"
SCORING = ("model_sha256", "data", "versions", "device", "engine", "settings", "signatures", "sandbox", "conditions")


class Documents(NamedTuple):
    """The items of a dataset, scored by every model."""

    ids: list[str]
    languages: np.ndarray  # str [documents]
    columns: np.ndarray  # float64 [documents, models * width]: the suite's columns of each model in turn


def read_items(path: Path, suite: Suite) -> dict[str, dict[str, tuple[str, list[float]]]]:
    """`{dataset: {id: (language, [width])}}` of one model.

    Raises:
        UserError: the file is unreadable, or an item is incomplete, repeated or holds a number that is none.
    """
    items = {}
    for number, item in enumerate(read_jsonl(path), 1):
        try:
            names = dataset, identity, language = item["dataset"], item["id"], item["language"]
            columns = suite.columns(item)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: line {number}: no scored document, {error}; {AGAIN}") from error
        if not all(isinstance(name, str) for name in names):
            raise UserError(f"{path}: line {number}: dataset, id and language must be text, not {names}; {AGAIN}")
        # a loss that overflowed is written as null
        if not all(isinstance(figure, int | float) and math.isfinite(figure) and figure >= 0 for figure in columns):
            said = f"{', '.join(suite.figures)} are {columns[:-1]}"
            raise UserError(f"{path}: line {number}: {identity}: {said}; has the model diverged?")
        if identity in items.setdefault(dataset, {}):
            raise UserError(f"{path}: line {number}: {identity} of {dataset} is there twice; {AGAIN}")
        items[dataset][identity] = (language, columns)
    return items


def read_scored(folder: Path, suite: Suite, models: list[str], datasets: list[str]) -> dict[str, Documents]:
    """The items by dataset, the same ones for all models.

    Args:
        folder: of the suite, a folder per model in it.

    Raises:
        UserError: models were scored on different data, or an item file does not hold what scores.json says.
    """
    folders = [folder / model for model in models]
    items = [read_items(folder / "items.jsonl.zst", suite) for folder in folders]
    scores = [read_json(folder / "scores.json") for folder in folders]
    scored = {}
    for dataset in datasets:
        ids = list(items[0].get(dataset, {}))
        if not ids:
            raise UserError(
                f"{folders[0] / 'items.jsonl.zst'}: no documents of {dataset}; its test split must not be empty"
            )
        for folder, said, found in zip(folders, scores, items, strict=True):
            check_same(folder, suite, dataset, said, scores[0], found.get(dataset, {}), items[0][dataset])
        rows = [list(itertools.chain(*(found[dataset][identity][1] for found in items))) for identity in ids]
        languages = np.array([items[0][dataset][identity][0] for identity in ids])
        scored[dataset] = Documents(ids, languages, np.array(rows, dtype=np.float64))
    return scored


def read_scoring(path: Path, folder: Path) -> dict:
    """What a scores.json says of how a model was scored: hashes of model and data, versions, device, engine, settings.

    Raises:
        UserError: it was another model than the one that is in `folder` now.
    """
    said = read_json(path)
    found = sha256_file(folder / "manifest.json")
    if said.get("model_sha256") != found:
        raise UserError(f"{path}: of a model {said.get('model_sha256')}, {folder} holds {found}; {AGAIN}")
    return {key: said[key] for key in SCORING if key in said}


def check_same(
    folder: Path, suite: Suite, dataset: str, said: dict, base_said: dict, found: dict, base_found: dict
) -> None:
    """See that a model was scored on the very documents that the base was, and that its two files belong together.

    Raises:
        UserError: it was not, or they do not.
    """
    path = folder / "scores.json"
    try:
        data, base_data, score = said["data"][dataset], base_said["data"][dataset], said["scores"][dataset]["all"]
        documents, metrics = score["documents"], {metric: score[metric] for metric in suite.metrics}
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: {error} is missing for {dataset}; {AGAIN}") from error
    if data != base_data:
        raise UserError(f"{path}: {dataset}: scored on test data {data}, the base on {base_data}; {AGAIN}")
    if said.get("settings") != base_said.get("settings"):
        raise UserError(
            f"{path}: scored with {said.get('settings')}, the base with {base_said.get('settings')}; {AGAIN}"
        )
    items = folder / "items.jsonl.zst"
    for identity in sorted(found.keys() ^ base_found.keys()):
        where = "only here" if identity in found else "missing here"
        raise UserError(f"{items}: {identity} of {dataset} is {where}, not with the base; {AGAIN}")
    fixed = [suite.column(name) for name in suite.same]
    for identity, (language, columns) in found.items():
        base_language, base_columns = base_found[identity]
        ours, theirs = [columns[place] for place in fixed], [base_columns[place] for place in fixed]
        if (language, ours) != (base_language, theirs):
            kind = ", ".join(suite.same)
            raise UserError(
                f"{items}: {identity} of {dataset} is {language} ({kind}: {ours}),"
                f" with the base {base_language} ({theirs}); {AGAIN}"
            )
    sums = np.sum([columns for _, columns in found.values()], axis=0)
    computed = {metric: float(measure.of(sums)) for metric, measure in suite.metrics.items()}
    for metric, value in computed.items():
        if documents != len(found) or metrics[metric] is None or not math.isclose(metrics[metric], value, rel_tol=1e-6):
            raise UserError(
                f"{path}: {dataset}: says {documents} documents at {metrics[metric]} {metric},"
                f" items.jsonl.zst holds {len(found)} at {value:.6f}; {AGAIN}"
            )
