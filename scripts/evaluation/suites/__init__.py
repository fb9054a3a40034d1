"""The evaluation's suites: a file each in this folder, found by listing it. A suite's file defines, by these names,

- `Settings`, the record of `evaluation.NAME` in an experiment, and `ABOUT`, what rules and report must know;
- `SUITE`, the figures of its items and its metrics, or a function that gives them for `Settings` as a dict;
- a command that writes `items.jsonl.zst` and `scores.json` of a model;
- `small(settings, items)`: what a rehearsal changes of the settings;
- where it needs them `datasets(settings)` (names of what is scored), `files(settings)` (of cases or problems),
  `prompts(settings)` (what of the settings decides prompts that training data may hold), `completed(settings,
  experiment)` (with what may be left out) and `check(settings, experiment, key)`.

The modules are imported with the settings of every experiment: what imports torch is imported where a model is scored.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.common.discovery import constants_in
from scripts.evaluation.metrics.metric import Suite
from scripts.experiment.settings.record import Record


@dataclass(frozen=True)
class About:
    """What the rules, the profiles and the report must know of a suite.

    Attributes:
        sentence: what the scores are, for the report.
        share: whether all metrics are from 0 to 1.
        needs_gpu: whether it runs a model, on a GPU where the machine has one.
        whole_node: whether nothing may run beside it.
        seeded: whether it draws from a seed of ours.
        tasks: the rule that makes its tasks; None where datasets or files give them.
        two_cores: whether it uses two cores also without a GPU.
    """

    sentence: str
    share: bool = True
    needs_gpu: bool = True
    whole_node: bool = False
    seeded: bool = True
    tasks: str | None = None
    two_cores: bool = False


def in_report_order(found: Mapping[str, object]) -> dict:
    """Suites, by name, in the order of the report."""
    places = constants_in(__name__, "PLACE")
    return {name: found[name] for name in sorted(found, key=places.get)}


def abouts() -> dict[str, About]:
    """All suites."""
    return in_report_order(constants_in(__name__, "ABOUT"))


def configured(evaluation: Record) -> dict[str, Record]:
    """The suites that an experiment configures, with their settings."""
    suites = in_report_order(constants_in(__name__, "PLACE"))
    return {name: getattr(evaluation, name) for name in suites if getattr(evaluation, name) is not None}


def suites_of(settings: Mapping[str, dict | None]) -> dict[str, Suite]:
    """The figures and metrics of suites; `latency` has none, as its metrics are no functions of sums over items.
    `settings`: of each suite, as an experiment or eval.json holds them; other keys are ignored."""
    found = {}
    for name, suite in in_report_order(constants_in(__name__, "SUITE")).items():
        if settings.get(name) is not None:
            found[name] = suite(settings[name]) if callable(suite) else suite
    return found


def scored_models(evaluation: Record, stages: list[str], further: Sequence[str] = ()) -> dict[str, list[str]]:
    """The models that each configured suite scores; `human_ratings` is left out until a sheet is filled. `further`:
    models of a stage's further seeds, of which there is neither latency nor a sheet."""
    models, measured = {}, constants_in(__name__, "SUITE")
    for name, settings in configured(evaluation).items():
        paired = name in measured and getattr(measured[name], "paired", True)
        if name != "human_ratings" or settings.sheets:
            models[name] = ["base", *stages, *(further if paired else ())]
    return models


def scored_datasets(evaluation: Record, name: str) -> list[str]:
    """The datasets of a configured suite; people rate those of the suite whose outputs they are given."""
    rated = evaluation.human_ratings.of if name == "human_ratings" else name
    settings, datasets = getattr(evaluation, rated), constants_in(__name__, "datasets")
    if rated in datasets:
        return datasets[rated](settings)
    return settings.datasets


def held_out(experiment) -> list[str]:
    """The datasets that have test examples: all but those of the user's own files with `test: 0`."""
    found = []
    for name, dataset in experiment.corpus.compose.items():
        if getattr(dataset, "test", 1) or dataset.test_path:
            found.append(name)
    return found


def problem_files(name: str, settings: Record) -> list[str]:
    """The files of cases or problems of a suite, and what judging them needs; none where datasets give the prompts."""
    files = constants_in(__name__, "files")
    if name in files:
        return files[name](settings)
    return []


def prompts_of(suites: Mapping[str, Record]) -> dict[str, dict]:
    """Of the suites whose prompts training data may hold, the settings that decide the prompts."""
    prompts = constants_in(__name__, "prompts")
    return {name: prompts[name](settings) for name, settings in suites.items() if name in prompts}


def dataset_of(file: str | Path) -> str:
    """The name as a dataset of a file of cases or problems: its file name up to the first dot."""
    return Path(file).name.split(".")[0]


def files_below(folder: str | None) -> list[str]:
    """The files of a folder that a user gave, but for hidden and compiled ones; none of no folder."""
    if folder is None:
        return []
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    return sorted(
        str(path) for path in files if not re.search(r"(^|/)(\.|__pycache__/)", str(path.relative_to(folder)))
    )
