"""The evaluation's suites by name: their metrics, and what each scores with an experiment's settings."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.layout import Layout
from scripts.experiment.settings.code import Benchmark, Code
from scripts.experiment.settings.evaluation import Completion, Evaluation, LmEval, RepositoryTests
from scripts.experiment.settings.record import Record


@dataclass(frozen=True)
class SuiteFacts:
    """What the workflow, the report and the commands must know of a suite, said once.

    Attributes:
        metrics: unique over all suites; their definitions are in scripts/evaluation/metrics/registry.py.
        sentence: what the scores are, for the report.
        share: whether all metrics are from 0 to 1.
        paired: whether its figures are of the same items for all models, so that models are compared item by item.
        prompted: whether its prompts may occur in the training data.
        needs_gpu: whether it runs a model, on a GPU where the machine has one.
        whole_node: whether nothing may run beside it.
        seeded: whether it draws from a seed of ours.
        tasks: the rule that makes its tasks; None where datasets or files give them.
        two_cores: whether it uses two cores also without a GPU.
        small: the settings that a rehearsal changes, given the number of items, None for one that it takes away; what
            depends on more is in rehearse.py.
    """

    metrics: tuple[str, ...]
    sentence: str
    share: bool = True
    paired: bool = True
    prompted: bool = False
    needs_gpu: bool = True
    whole_node: bool = False
    seeded: bool = True
    tasks: str | None = None
    two_cores: bool = False
    small: Callable[[int], dict] = lambda items: {"documents": items}


# in the order of the report
SUITES = {
    "perplexity": SuiteFacts(
        ("perplexity", "bits_per_byte"),
        "Bits per byte do not depend on the tokenizer; perplexity is per token. Less is better for both.",
        share=False,
        seeded=False,
    ),
    "qa": SuiteFacts(
        ("exact_match", "f1", "strict_match"),
        "Answers to chats, 0 to 1: share of exact matches, mean F1 over words (Chinese: characters), share of matches"
        " that keep every symbol of code. More is better.",
        prompted=True,
        small=lambda items: {"documents": items, "max_new_tokens": 8},
    ),
    "bleu": SuiteFacts(
        ("bleu", "chrf"),
        "Descriptions of code, BLEU and chrF by sacrebleu from 0 to 1 (its own scale is 0 to 100). More is better.",
        prompted=True,
        small=lambda items: {"documents": items, "max_new_tokens": 8},
    ),
    "keywords": SuiteFacts(
        ("keywords",),
        "Share of the expected keywords that a response mentions, 0 to 1. More is better, but it does not say that the"
        " code works.",
        prompted=True,
        small=lambda items: {"max_new_tokens": 8},
    ),
    "code": SuiteFacts(
        ("pass@{k}",),  # for each of its `k`
        "Share of problems solved by one of k programs, 0 to 1: written by the model, run in a sandbox against the"
        " problem's tests. More is better.",
        prompted=True,
        two_cores=True,
        small=lambda items: {"max_new_tokens": 64},
    ),
    "completion": SuiteFacts(
        ("completion_match", "edit_similarity", "identifier_f1", "parses", "answer_bits_per_byte"),
        "Code written in place in held-out files, by the size of what was to be written. Each 0 to 1, more"
        " is better: share that is the file's own code line by line, edit similarity, F1 over identifiers, share that"
        " parses. Less is better: bits per byte of the file's own code.",
        share=False,
        tasks="completion_tasks",
        small=lambda items: {"tasks": 1, "max_new_tokens": 8},
    ),
    "repository_tests": SuiteFacts(
        ("repository_pass@1",),
        "Functions of the sources written in place, 0 to 1: share whose repository's own tests pass,"
        " run in a sandbox. More is better.",
        tasks="repository_tasks",
        small=lambda items: {"tasks": items, "max_new_tokens": 8},
    ),
    "lm_eval": SuiteFacts(
        ("task_score",),
        "Tasks of the lm-evaluation-harness: the mean over items of the metric named behind the task's colon,"
        " else of the first that the task lists, 0 to 1; subtasks of a group in the place of languages. More is"
        " better.",
        seeded=False,
        small=lambda items: {"limit": items},
    ),
    "latency": SuiteFacts(
        ("first_token_seconds", "answer_seconds", "tokens_per_second"),  # no sums over items; no datasets
        "Seconds to the first token and of a whole answer, tokens per second, on the hardware that the model is for.",
        share=False,
        paired=False,
        whole_node=True,
        small=lambda items: {"prompt_tokens": 32, "new_tokens": 4},
    ),
    "human": SuiteFacts(
        ("correct",),
        "Share of responses that people called correct, 0 to 1, rated blindly. More is better.",
        paired=False,
        needs_gpu=False,
        small=lambda items: {"samples": items, "sheets": []},
    ),
}
METRICS = {suite: facts.metrics for suite, facts in SUITES.items()}
WITHOUT_PAIRS = tuple(suite for suite, facts in SUITES.items() if not facts.paired)
PROMPTED = tuple(suite for suite, facts in SUITES.items() if facts.prompted)
REPOSITORIES = "repositories"  # the one dataset of suite repository_tests
CHATS = ("instruct", "chat")  # the kinds of dataset that hold chats


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
        suite: [*everyone, *(further if suite not in WITHOUT_PAIRS else ())]
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
        vendored = task_files(Path(settings.go_vendor)) if settings.go_vendor else []
        return [*(benchmark.path for benchmark in settings.benchmarks), *settings.jars, *vendored]
    return []


def scored_datasets(evaluation: Evaluation, suite: str) -> list[str]:
    """The datasets of a configured suite; people rate those of the suite whose outputs they are given."""
    rated = evaluation.human.of if suite == "human" else suite
    return datasets_of(getattr(evaluation, rated))


def datasets_of(settings: Record) -> list[str]:
    """The datasets of a suite with these settings."""
    if isinstance(settings, Completion):
        return ["line", "function"]
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
        chosen = {"path", "few_shot", "ignore", "ids", "exclude", "limit"}
        return {
            "benchmarks": [
                benchmark.model_dump(include=chosen, exclude_defaults=True) for benchmark in settings.benchmarks
            ]
        }
    shown = getattr(settings, "few_shot", None)
    chosen = {"few_shot": shown} if shown else {}
    return settings.model_dump(include={"datasets", "documents", "cases"}) | chosen


def tested_sources(settings: RepositoryTests | None, sources: dict[str, Record]) -> dict[str, Record]:
    """The rows of the sources table that the suite takes its tasks from, by name.

    Raises:
        UserError: a source is not in the table or not in Python, or there is no Python source.
    """
    if settings is None:
        return {}
    python = [name for name, source in sources.items() if source.language == "python"]
    if not python:
        raise UserError("evaluation.repository_tests: no Python source in the table of sources")
    for key, names in (("sources", settings.sources or []), ("environments", settings.environments)):
        for name in names:
            check_name(f"evaluation.repository_tests.{key}", name, python)
    return {name: sources[name] for name in settings.sources or python}


def pinned_benchmarks(code: Code | None) -> dict[str, Benchmark]:
    """The benchmarks with a repository, by the name of their file; none without the suite `code`."""
    return {Path(benchmark.path).name: benchmark for benchmark in code.benchmarks if benchmark.git} if code else {}


def with_files(code: Code, layout: Layout) -> Code:
    """The settings with pinned benchmarks as files. So the content decides, wherever the file came from."""

    def as_file(benchmark: Benchmark) -> Benchmark:
        if benchmark.git is None:
            return benchmark
        path = str(layout.problems(Path(benchmark.path).name))
        return benchmark.model_copy(update={"path": path, "git": None, "commit": None})

    return code.model_copy(update={"benchmarks": [as_file(benchmark) for benchmark in code.benchmarks]})
