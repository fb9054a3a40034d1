"""Whether the suites' settings agree with each other and name what is there."""

import re
from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.settings.code import Code
from scripts.experiment.settings.evaluation import Evaluation, Human, LmEval
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.suites import CHATS, check_name, configured, dataset_of, scored_datasets

# of a benchmark out of a repository: part of the path of an output, and so of a command
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
# of lm-eval: `task`, `task:metric`, `task:metric,filter`
TASK = re.compile(r"[\w.+-]+(:[\w@.+-]+(,[\w.+-]+)?)?")


def with_datasets(experiment: Experiment) -> Evaluation:
    """The evaluation in which suites that name no datasets or models have all that they can score."""
    evaluation, updates = experiment.evaluation, {}
    for suite in ("perplexity", "qa", "bleu"):
        settings = getattr(evaluation, suite)
        if settings is not None and settings.datasets is None:
            updates[suite] = settings.model_copy(update={"datasets": scorable(experiment, suite)})
    if (completion := evaluation.completion) and completion.dataset is None:
        first = next(iter(code_datasets(experiment)), None)
        updates["completion"] = completion.model_copy(update={"dataset": first})
    return evaluation.model_copy(update=updates)


def scorable(experiment: Experiment, suite: str) -> list[str]:
    """The datasets that a suite can score: all, or those of chats."""
    datasets = experiment.corpus.compose
    return [name for name, dataset in datasets.items() if suite == "perplexity" or dataset.kind in CHATS]


def code_datasets(experiment: Experiment) -> list[str]:
    """The datasets that suite `completion` can take its files from."""
    return [name for name, dataset in experiment.corpus.compose.items() if dataset.kind == "code"]


def check_suites(experiment: Experiment, name: str) -> None:
    """Check the suites of an experiment whose evaluation went through `with_datasets`.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: their settings do not agree, or name a file, dataset or model that is not there.
    """
    evaluation = experiment.evaluation
    for suite in ("perplexity", "qa", "bleu"):
        settings = getattr(evaluation, suite)
        if settings is not None:
            for dataset in settings.datasets:
                check_name(f"{name}: evaluation.{suite}.datasets", dataset, scorable(experiment, suite))
            if not settings.datasets:
                raise UserError(f"{name}: evaluation.{suite}.datasets: none of kind {' or '.join(CHATS)}")
    known = []
    for suite in configured(evaluation):
        if suite != "human":
            known += scored_datasets(evaluation, suite)
    for dataset in evaluation.general or ():
        check_name(f"{name}: evaluation.general", dataset, list(dict.fromkeys(known)))
    if evaluation.perplexity.stride > evaluation.perplexity.context:
        raise UserError(f"{name}: evaluation.perplexity.stride: {evaluation.perplexity.stride} exceeds `context`")
    if evaluation.completion:
        key = f"{name}: evaluation.completion.dataset"
        if not code_datasets(experiment):
            raise UserError(f"{key}: no dataset of kind `code` here; add one to corpus.compose")
        check_name(key, evaluation.completion.dataset, code_datasets(experiment))
    for suite in ("qa", "bleu", "keywords", "code", "completion", "repository_tests"):
        if getattr(evaluation, suite) is not None:
            check_generation(getattr(evaluation, suite), f"{name}: evaluation.{suite}")
    if evaluation.code:
        check_code(evaluation.code, f"{name}: evaluation.code")
    if evaluation.lm_eval:
        check_lm_eval(evaluation.lm_eval, f"{name}: evaluation.lm_eval")
    if evaluation.human:
        check_human(evaluation.human, experiment, f"{name}: evaluation.human")


def check_generation(settings, key: str) -> None:
    """Check how a suite generates completions.

    Raises:
        UserError: the settings do not agree; the line starts with `key`.
    """
    greedy = settings.temperature == 0
    if greedy and settings.samples > 1:
        raise UserError(f"{key}.samples: with temperature 0 all samples are the same; set a temperature above 0")
    if hasattr(settings, "cases") and not Path(settings.cases).is_file():
        raise UserError(f"{key}.cases: no file {settings.cases}")


def check_code(settings: Code, key: str) -> None:
    """Check pass@k and the benchmark files.

    Raises:
        UserError: k exceeds the samples, a file is missing, or two have one name; the line starts with `key`.
    """
    if max(settings.k) > settings.samples:
        raise UserError(f"{key}.k: pass@{max(settings.k)} needs as many `samples`, not {settings.samples}")
    for number, jar in enumerate(settings.jars):
        if not Path(jar).is_file():
            raise UserError(f"{key}.jars.{number}: {jar}: no such file")
    if settings.go_vendor is not None and not Path(settings.go_vendor).is_dir():
        raise UserError(f"{key}.go_vendor: {settings.go_vendor}: no such folder")
    files = {}
    for number, benchmark in enumerate(settings.benchmarks):
        path = Path(benchmark.path)
        if benchmark.git is not None and not FILE_NAME.fullmatch(path.name):
            raise UserError(
                f"{key}.benchmarks.{number}.path: {path.name!r}: a file's name may have letters, digits and `._+-`, and"
                " begins with a letter or digit; rename it in its repository"
            )
        if benchmark.git is None and not path.is_file():
            raise UserError(f"{key}.benchmarks.{number}.path: {path}: no such file")
        first_path = files.setdefault(dataset_of(path), path)
        if first_path is not path:
            raise UserError(f"{key}.benchmarks.{number}.path: {path} has the name of {first_path}; rename one")


def check_lm_eval(settings: LmEval, key: str) -> None:
    """Check what can be checked of lm-eval's tasks without loading them.

    Raises:
        UserError: the folder of tasks is not there, or a task is named wrongly; the line starts with `key`.
    """
    if settings.include_path is not None and not Path(settings.include_path).is_dir():
        raise UserError(f"{key}.include_path: no folder {settings.include_path}")
    for number, task in enumerate(settings.tasks):
        if not TASK.fullmatch(task):
            raise UserError(f"{key}.tasks.{number}: must be `task` or `task:metric`, not {task!r:.60}")


def check_human(settings: Human, experiment: Experiment, key: str) -> None:
    """Check that people rate outputs that a suite generates, and that their sheets are there.

    Raises:
        UserError: the suite is not configured, or a sheet is not there; the line starts with `key`.
    """
    rated = configured(experiment.evaluation)
    if settings.of not in rated:
        raise UserError(f"{key}.of: {settings.of} is not configured; add evaluation.{settings.of}")
    raters = {}
    for number, sheet in enumerate(settings.sheets):
        if not Path(sheet).is_file():
            raise UserError(f"{key}.sheets.{number}: {sheet}: no such file")
        other = raters.setdefault(Path(sheet).stem, sheet)
        if other != sheet:
            raise UserError(f"{key}.sheets.{number}: {sheet} has the rater's name of {other}; rename one")
