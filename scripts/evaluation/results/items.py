"""Read the scored items of all models side by side, and check that all models cover the same examples.

scored = read_scored(Path("results/evaluation/qa"), suite, ["base", "sft"], ["instruct"], "file")
scored["instruct"].columns  # float64 [documents, models * width]
"""

import itertools
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl, sha256_file
from scripts.common.units import clusters
from scripts.evaluation.metrics.metric import Suite

AGAIN = "delete the folder and run again"
SCORING = ("model_sha256", "data", "versions", "device", "engine", "settings", "signatures", "sandbox", "conditions")
SCORING += ("task_metrics", "float32_products")  # of lm-eval; on a CPU


class Documents(NamedTuple):
    """The items of a dataset, scored by every model."""

    ids: list[str]
    languages: np.ndarray  # str [documents]
    columns: np.ndarray  # float64 [documents, models * width]: the suite's columns of each model in turn
    clusters: np.ndarray  # int [documents]: documents with the same number vary together (intervals.py)


class Item(NamedTuple):
    """One scored item of a model; `columns` as `Suite.columns` returns them."""

    language: str
    columns: list[float]


Items = dict[str, dict[str, Item]]  # dataset → id → item


class ScoredModel(NamedTuple):
    """What a suite wrote for a model: its folder, the content of scores.json, the items."""

    folder: Path
    scores: dict
    items: Items


def read_items(path: Path, suite: Suite) -> Items:
    """The items of one model. Raises UserError: the file is unreadable, or an item is incomplete, repeated or holds a
    value that is not a number."""
    items = {}
    for number, item in enumerate(read_jsonl(path), 1):
        try:
            names = dataset, identity, language = item["dataset"], item["id"], item["language"]
            columns = suite.columns(item)
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: line {number}: not a scored document, {error}; {AGAIN}") from error
        if not all(isinstance(name, str) for name in names):
            raise UserError(f"{path}: line {number}: dataset, id and language must be text, not {names}; {AGAIN}")
        # a loss that overflowed is written as null
        if not all(isinstance(figure, int | float) and math.isfinite(figure) and figure >= 0 for figure in columns):
            values = f"{', '.join(suite.figures)} are {columns[:-1]}"
            raise UserError(f"{path}: line {number}: {identity}: {values}; has the model diverged?")
        if identity in items.setdefault(dataset, {}):
            raise UserError(f"{path}: line {number}: {identity} of {dataset} occurs twice; {AGAIN}")
        items[dataset][identity] = Item(language, columns)
    return items


def read_scored(folder: Path, suite: Suite, models: list[str], datasets: list[str], unit: str) -> dict[str, Documents]:
    """The items of all models by dataset.

    Args:
        folder: the suite's, with a folder per model.
        unit: what varies: `file` or `repository`, see `clusters`.

    Raises:
        UserError: models were scored on different data, or an item file does not agree with its scores.json.
    """
    folders = [folder / model for model in models]
    models_scored = [
        ScoredModel(folder, read_json(folder / "scores.json"), read_items(folder / "items.jsonl.zst", suite))
        for folder in folders
    ]
    base, scored = models_scored[0], {}
    for dataset in datasets:
        items = base.items.get(dataset)
        if not items:
            raise UserError(
                f"{base.folder / 'items.jsonl.zst'}: no documents of {dataset}; its test split must not be empty"
            )
        for model in models_scored:
            check_same_examples(suite, dataset, model, base)
            check_scores(suite, dataset, model)
        rows = []
        for name in items:
            rows.append(list(itertools.chain(*(model.items[dataset][name].columns for model in models_scored))))
        languages = np.array([item.language for item in items.values()])
        scored[dataset] = Documents(list(items), languages, np.array(rows, dtype=np.float64), clusters([*items], unit))
    return scored


def read_scoring(path: Path, folder: Path) -> dict:
    """How a model was scored, from scores.json: hashes of model and data, versions, device, engine, settings. Raises
    UserError: another model was scored than the one now in `folder`."""
    scores = read_json(path)
    sha256 = sha256_file(folder / "manifest.json")
    if scores.get("model_sha256") != sha256:
        raise UserError(f"{path}: scored with model {scores.get('model_sha256')}, but {folder} has {sha256}; {AGAIN}")
    return {key: scores[key] for key in SCORING if key in scores}


def settings_differences(settings: dict | None, expected: dict | None) -> str:
    """The settings that differ, as `documents 100, must be 200`; empty if none does."""
    if not isinstance(settings, dict) or not isinstance(expected, dict):
        if settings == expected:
            return ""
        return f"{settings}, must be {expected}"
    keys = sorted(key for key in {*settings, *expected} if settings.get(key) != expected.get(key))
    return "; ".join(f"{key} {settings.get(key)}, must be {expected.get(key)}" for key in keys)


def check_same_examples(suite: Suite, dataset: str, model: ScoredModel, base: ScoredModel) -> None:
    """Check that a model was scored on the same examples as the base, with the same settings."""
    path, items = model.folder / "scores.json", model.folder / "items.jsonl.zst"
    try:
        data, base_data = model.scores["data"][dataset], base.scores["data"][dataset]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: {error} is missing for {dataset}; {AGAIN}") from error
    if data != base_data:
        raise UserError(f"{path}: {dataset}: scored on test data {data}, the base on {base_data}; {AGAIN}")
    differences = settings_differences(model.scores.get("settings"), base.scores.get("settings"))
    if differences:
        raise UserError(f"{path}: not scored with the base's settings: {differences}; {AGAIN}")
    items_here, expected = model.items.get(dataset, {}), base.items[dataset]
    for identity in sorted(items_here.keys() ^ expected.keys()):
        fault = "missing, though the base's have it"
        if identity in items_here:
            fault = "not among the base's"
        raise UserError(f"{items}: {identity} of {dataset} is {fault}; {AGAIN}")
    fixed = [suite.column(name) for name in suite.data_figures]
    for identity, item in items_here.items():
        base_item = expected[identity]
        values = [item.columns[column] for column in fixed]
        base_values = [base_item.columns[column] for column in fixed]
        if (item.language, values) != (base_item.language, base_values):
            raise UserError(
                f"{items}: {identity} of {dataset} is {item.language} ({', '.join(suite.data_figures)}: {values}),"
                f" with the base {base_item.language} ({base_values}); {AGAIN}"
            )


def check_scores(suite: Suite, dataset: str, model: ScoredModel) -> None:
    """Check that a model's scores.json agrees with its items."""
    path, items = model.folder / "scores.json", model.items[dataset]
    try:
        score = model.scores["scores"][dataset]["all"]
        documents, metrics = score["documents"], {metric: score[metric] for metric in suite.metrics}
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: {error} is missing for {dataset}; {AGAIN}") from error
    sums = np.sum([item.columns for item in items.values()], axis=0)
    for metric in suite.metrics:
        written, computed = metrics[metric], suite.value(metric, sums)
        if None in (written, computed):
            agree = written is computed
        else:
            agree = math.isclose(written, computed, rel_tol=1e-6)
        if documents != len(items) or not agree:
            raise UserError(
                f"{path}: {dataset}: says {documents} documents at {written} {metric},"
                f" items.jsonl.zst holds {len(items)} at {computed}; {AGAIN}"
            )
