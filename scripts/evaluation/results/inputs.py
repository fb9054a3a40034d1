"""Collect everything that a result was made from: settings, pins, and the hashes of code, data and models."""

import importlib.metadata
import platform
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.evaluation.suites import scored_models
from scripts.experiment.causes import setting_changes
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import MANIFEST, Layout, raw_manifest, raw_name
from scripts.experiment.packed_rows import PackedRows
from scripts.experiment.provenance import Index, provenance_file, read_provenance
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import to_dict
from scripts.experiment.stage_seeds import further_models
from scripts.sources.tables.source import check_pin

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
    """The version of an installed package; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of each file that a folder's manifest names, by file name.

    Raises:
        UserError: the manifest is missing or malformed.
    """
    path = folder / MANIFEST
    try:
        return {name: file["sha256"] for name, file in read_json(path)["files"].items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: not a manifest: no `files` with a sha256 each; delete it and run again") from error


def data_folders(experiment: Experiment) -> list[Path]:
    """The folders below the results root that hold documents, tokenizer and shards, in the order of the data flow."""
    layout = Layout(Path())
    rows = PackedRows(experiment, layout)
    shards = {*rows.packed(), *rows.mixed()}
    datasets = [layout.dataset(name) for name in sorted(experiment.corpus.compose)]
    corpus = [layout.deduplicated, layout.split] if experiment.sources else []
    return [*corpus, *datasets, layout.tokenizer, *sorted(shards)]


def archive_manifest(row: dict, raw: Path) -> dict:
    """The manifest of a source's archive, which has the pin of the source's row in the table."""
    path = raw / raw_manifest(raw_name(row["name"], row["pin"])).name
    manifest = read_json(path)
    check_pin(path, manifest, row["kind"], row["pin"])
    return manifest


def accepted(results: Path) -> dict[str, list[dict]]:
    """A job's first output → the changes of its code after which its results were kept (`stagecraft accept`)."""
    jobs = Index((str(results),)).jobs.values()
    return {next(iter(made.outputs)): made.accepted for made in jobs if made.accepted}


def gather(experiment: Experiment, sources: dict, codes: dict[str, str], results: Path, raw: Path) -> dict:
    """The `inputs` of eval.json.

    Args:
        sources: the rows of the source table by name.
        codes: a fingerprint per rule.
        results: the results root.
        raw: the folder with a manifest per archive.

    Raises:
        UserError: a manifest is missing or malformed, or an archive is not what the sources table pins.
    """
    stages = experiment.training.train
    layout, models = Layout(Path()), ["base", *stages, *further_models(stages)]
    folders = [*(layout.filtered(name) for name in sources), *data_folders(experiment)]
    return {
        "experiment": to_dict(experiment),
        "seed": experiment.seed,
        "sources": {name: {**row, "archive": archive_manifest(row, raw)} for name, row in sources.items()},
        "code": codes,
        "data": {str(folder): hashes(results / folder) for folder in folders},
        "models": {model: hashes(results / layout.model(model)) for model in models},
        "accepted": accepted(results),
        "versions": {"python": platform.python_version(), **{package: installed(package) for package in PACKAGES}},
    }


def expected_settings(experiment: Experiment) -> dict[Path, dict]:
    """The first output of each job that made a model or scores → the settings that it must have been made with."""
    layout = Layout(Path(experiment.results))
    view = ExperimentView(experiment, {}, layout)
    expected = {}
    for name in view.own_models:
        expected[layout.model(name) / MANIFEST] = to_dict(view.stages[name])
    models = scored_models(experiment.evaluation, list(experiment.stages), further_models(experiment.stages))
    for suite, names in models.items():
        if suite == "human":  # its settings are those of the sheet that people filled
            continue
        for name in names:
            expected[layout.suite(suite, name) / "scores.json"] = to_dict(view.suites[suite])
    return expected


def check_made_with(experiment: Experiment) -> dict[str, str]:
    """Refuse models and scores that were made with other settings than the experiment's.

    Returns:
        provenance file → rule and code fingerprint; a result that was made by hand, without the workflow, has none.

    Raises:
        UserError: one was made with other settings, or its provenance is damaged.
    """
    codes = {}
    for output, expected in expected_settings(experiment).items():
        path = provenance_file(output)
        if not path.is_file():
            continue
        made = read_provenance(path)
        changes = setting_changes(made.settings, expected)
        if changes:
            raise UserError(
                f"{output}: it was made with another setting than the experiment's: {changes[0]}; run the workflow"
                " without --touch, so that it is made again"
            )
        codes[str(path)] = f"{made.rule} {made.code}"
    return codes
