"""The evaluation's suites by name: their metrics, and what each scores with an experiment's settings."""

import re
from collections.abc import Sequence
from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.settings.code import Code
from scripts.experiment.settings.evaluation import Completion, Evaluation, LmEval, RepositoryTests
from scripts.experiment.settings.record import Record

# the metrics of each suite, unique over all suites; their definitions are in scripts/evaluation/metrics/registry.py
METRICS = {
    "perplexity": ("perplexity", "bits_per_byte"),
    "qa": ("exact_match", "f1", "strict_match"),
    "bleu": ("bleu", "chrf"),
    "keywords": ("keywords", "structure"),
    "code": ("pass@{k}",),  # for each of its `k`
    "completion": ("completion_match", "edit_similarity", "identifier_f1", "parses", "answer_bits_per_byte"),
    "repository_tests": ("repository_pass@1",),
    "lm_eval": ("task_score",),
    "latency": ("first_token_seconds", "answer_seconds", "tokens_per_second"),  # no sums over items; no datasets
    "human": ("correct",),
}
REPOSITORIES = "repositories"  # the one dataset of suite repository_tests
CHATS = ("instruct", "chat")  # the kinds of dataset that hold chats
WITHOUT_PAIRS = ("latency", "human")  # suites whose figures are not of the same items for all models
PROMPTED = ("qa", "bleu", "keywords", "code")  # suites whose prompts may occur in the training data


def needs_gpu(suite: str) -> bool:
    """Whether the suite runs a model, on a GPU where the machine has one; people rate with none."""
    return suite != "human"


def check_name(key: str, value: str, names: list[str]) -> None:
    """Refuse a `value` that is not one of `names`.

    Raises:
        UserError: it is not; the line starts with `key`.
    """
    if value not in names:
        raise UserError(f"{key}: no {value!r} here; known: {', '.join(names)}")


def configured(evaluation: Evaluation) -> dict[str, Record]:
    """The suites that an experiment configures, with their settings, in the order of the report."""
    return {suite: settings for suite in METRICS if (settings := getattr(evaluation, suite)) is not None}


def metrics_of(suite: str, settings: Record) -> tuple[str, ...]:
    """The metrics of a suite with these settings."""
    if isinstance(settings, Code):
        return tuple(METRICS[suite][0].format(k=k) for k in settings.k)
    return METRICS[suite]


def scored_models(evaluation: Evaluation, stages: list[str], further: Sequence[str] = ()) -> dict[str, list[str]]:
    """The models that each configured suite scores; `human` is left out until a sheet is filled.

    Args:
        further: models of a stage's further seeds, of which there is neither latency nor a sheet.
    """
    everyone = ["base", *stages]
    return {
        suite: settings.models or everyone
        if suite == "human"
        else [*everyone, *(further if suite not in WITHOUT_PAIRS else ())]
        for suite, settings in configured(evaluation).items()
        if suite != "human" or settings.sheets
    }


def dataset_of(file: str | Path) -> str:
    """The name as a dataset of a file of cases or problems: its file name up to the first dot."""
    return Path(file).name.split(".")[0]


def task_files(folder: Path) -> list[str]:
    """The files of a folder of lm-eval's tasks: all but hidden and compiled ones."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    kept = [path for path in files if not re.search(r"(^|/)(\.|__pycache__/)", str(path.relative_to(folder)))]
    return sorted(map(str, kept))


def problem_files(settings: Record) -> list[str]:
    """The files of cases or problems of a suite with these settings, and what judging them needs; none where datasets
    give the prompts."""
    if isinstance(settings, LmEval):
        return task_files(Path(settings.include_path)) if settings.include_path else []
    if hasattr(settings, "cases"):
        return [settings.cases]
    if isinstance(settings, Code):
        formats = dict.fromkeys(benchmark.format for benchmark in settings.benchmarks if benchmark.format)
        vendored = task_files(Path(settings.go_vendor)) if settings.go_vendor else []
        return [*(benchmark.path for benchmark in settings.benchmarks), *formats, *settings.jars, *vendored]
    return []


def scored_datasets(settings: Record) -> list[str]:
    """The datasets of a suite with these settings."""
    if isinstance(settings, Completion):
        with_context = [f"{size}+context" for size in settings.sizes] if settings.context_characters else []
        return [*settings.sizes, *with_context]
    if isinstance(settings, RepositoryTests):
        return [REPOSITORIES]
    if isinstance(settings, LmEval):
        return settings.tasks
    if hasattr(settings, "datasets"):
        return settings.datasets
    if isinstance(settings, Code):
        return [dataset_of(benchmark.path) for benchmark in settings.benchmarks]
    return [dataset_of(file) for file in problem_files(settings)]


def prompts_from(settings: Record) -> dict:
    """Those of a prompted suite's settings that decide the prompts, however the completions are generated."""
    if isinstance(settings, Code):
        chosen = {"path", "format", "few_shot", "ignore", "ids", "exclude", "unjudged", "limit"}
        return {
            "benchmarks": [
                benchmark.model_dump(include=chosen, exclude_defaults=True) for benchmark in settings.benchmarks
            ],
        }
    chosen = {name: value for name in ("ids", "few_shot") if (value := getattr(settings, name, None))}
    return settings.model_dump(include={"datasets", "documents", "cases"}) | chosen
