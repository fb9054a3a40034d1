"""Collect everything that a result was made from: settings, pins, and the hashes of code, data and models."""

import ast
import importlib.metadata
import json
import platform
from pathlib import Path

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.known_hashes import KnownHashes
from scripts.evaluation.suites import scored_models
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import MANIFEST, Layout, raw_manifest, raw_name
from scripts.experiment.reruns.causes import setting_changes
from scripts.experiment.reruns.provenance import FOLDERS, Index, Provenance, first_difference
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import to_dict
from scripts.experiment.settings.training import further_models
from scripts.experiment.shards import PackedRows
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
    """The sha256 of each file that a folder's manifest names, by file name. Raises UserError: the manifest is missing
    or malformed."""
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
    corpus = []
    if experiment.sources:
        corpus = [layout.deduplicated, layout.split]
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


def settings_of(made: Provenance) -> dict | None:
    """The settings that a job was made with; None for one without."""
    value = ast.literal_eval(made.params.get("settings", "None"))
    if isinstance(value, list):  # an option and its value, or neither
        value = value[1] if value else None
    if value is None:
        return None
    return json.loads(value)


def expected_settings(made: Provenance, output: Path, view: ExperimentView) -> dict | None:
    """The settings that the experiment gives a job today; None for one without, or that is not checked. `output`: the
    job's first."""
    experiment, folder = view.experiment, output.parent.name
    match made.rule:
        case "filter":
            return to_dict(experiment.corpus.filter)
        case "split":
            return to_dict(experiment.corpus.split)
        case "compose":
            if folder in view.datasets:
                return to_dict(view.datasets[folder])
            return {}
        case "tokenizer":
            if view.scratch:
                return to_dict(experiment.tokens.tokenizer)
            return None
        case "mix":
            mixture = experiment.tokens.mix.get(folder.rpartition("-")[0])
            return to_dict(mixture) if mixture else {}
        case "base":
            return view.base_settings
        case "train":
            if folder in view.stages:
                return to_dict(view.stages[folder])
            return {}
        case "human_ratings":  # its settings are those of the sheet that people filled
            return settings_of(made)
        case suite if suite in view.suites:
            return to_dict(view.suites[suite])
    return settings_of(made)


def expected_options(made: Provenance, output: Path, view: ExperimentView) -> dict[str, str]:
    """The params beside the settings that the experiment decides, as provenance holds them."""
    options = {}
    if made.rule == "train":
        options["seed"] = view.seed(output.parent.name)
    elif made.params.get("seed", "[]").isdigit():
        options["seed"] = view.experiment.seed
    elif made.params.get("seed", "[]") != "[]":
        options["seed"] = ["--seed", str(view.experiment.seed)]
    return {name: repr(value) for name, value in options.items() if name in made.params}


def check_job(made: Provenance, output: Path, view: ExperimentView) -> None:
    """Check that a job was made with the experiment's settings."""
    changes = setting_changes(settings_of(made) or {}, expected_settings(made, output, view) or {})
    for name, value in expected_options(made, output, view).items():
        if made.params[name] != value:
            changes.append(f"{name} {made.params[name]} → {value}")
    if changes:
        raise UserError(
            f"{output}: it was made with another setting than the experiment's: {changes[0]}; run the whole workflow,"
            " without --touch and --allowed-rules, so that it is made again"
        )


def scored_outputs(view: ExperimentView) -> list[Path]:
    """The first output of each job whose models and scores a verdict stands on."""
    experiment, layout = view.experiment, view.layout
    outputs = [layout.model(name) / MANIFEST for name in ("base", *view.own_models)]
    models = scored_models(experiment.evaluation, list(experiment.stages), further_models(experiment.stages))
    for suite, names in models.items():
        outputs += [layout.suite(suite, name) / "scores.json" for name in names]
    return outputs


def check_made_with(experiment: Experiment, by_workflow: bool) -> dict[str, str]:
    """Refuse results that were made with other settings than the experiment's, or whose files are not those that their
    jobs left, and all that they were made from.

    Args:
        by_workflow: whether each result must have its provenance; one that was made by hand has none.

    Returns:
        provenance file → rule and code fingerprint.

    Raises:
        UserError: one was made with other settings or from other files, or its provenance is damaged or missing.
    """
    view = ExperimentView(experiment, {}, Layout(Path(experiment.results)))
    index = Index((experiment.results, *FOLDERS[1:]))
    for words in index.damaged.values():
        raise UserError(words)
    makers = {}  # each file that a job made → its provenance file
    for path, made in index.jobs.items():
        makers |= dict.fromkeys(made.files, path)
    codes, waiting, hashes = {}, list(map(str, scored_outputs(view))), KnownHashes()
    while waiting:
        name = waiting.pop()
        path = makers.get(name)
        if path is None:
            if by_workflow and name.startswith(f"{experiment.results}/"):
                raise UserError(f"{name}: it has no provenance, so nothing says how it was made; run the workflow")
            continue
        if str(path) in codes:
            continue
        made = index.jobs[path]
        check_job(made, Path(next(iter(made.outputs))), view)
        gone = [file for file in made.files if not Path(file).is_file()]
        wrong = f"{gone[0]} is missing" if gone else first_difference(made, hashes)
        if wrong:
            raise UserError(f"{wrong}, which is not what rule {made.rule} left: run the whole workflow, without -R")
        codes[str(path)] = f"{made.rule} {made.code}"
        for read, sha256 in made.inputs.items():
            maker = makers.get(read)
            if maker and index.jobs[maker].files[read] != sha256:
                raise UserError(f"{name}: it was made from another {read} than the one there is; run the workflow")
            waiting.append(read)
    hashes.save()
    return codes
