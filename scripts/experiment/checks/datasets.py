"""Whether the settings of sources, split and datasets agree with each other."""

from pathlib import Path

from scripts.common.errors import UserError
from scripts.evaluation.suites import problem_files
from scripts.experiment.settings.corpus import ChatDataset, TextDataset
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import Record, check_name
from scripts.languages import syntaxes


def check_datasets(experiment: Experiment, name: str) -> None:
    """Check sources, split and datasets.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: they do not agree.
    """
    split = experiment.corpus.split
    if split.validation + split.test >= 1:
        raise UserError(f"{name}: corpus.split: validation and test leave nothing to train on")
    kinds = {dataset.kind for dataset in experiment.corpus.compose.values()}
    if experiment.sources and not kinds & {"code", "instruct"}:
        raise UserError(f"{name}: sources: no dataset is made from repositories; leave it out")
    for dataset, settings in experiment.corpus.compose.items():
        if settings.kind in ("code", "instruct"):
            if not experiment.sources:
                raise UserError(f"{name}: sources: required, dataset {dataset} is made from repositories")
        else:
            check_own_dataset(settings, f"{name}: corpus.compose.{dataset}")
    if experiment.sources:
        check_grammars(experiment, name)


def check_grammars(experiment: Experiment, name: str) -> None:
    """Check that chats and tasks, which are made of files of languages with a grammar alone, have some."""
    corpus = experiment.corpus
    read = corpus.filter.read_languages()
    if read & syntaxes().keys():
        return
    needed = {f"corpus.compose.{dataset}": settings.kind == "instruct" for dataset, settings in corpus.compose.items()}
    needed["evaluation.completion"] = experiment.evaluation.completion
    keys = [key for key, used in needed.items() if used]
    if keys:
        raise UserError(
            f"{name}: {keys[0]}: needs a grammar, and there is none of {', '.join(sorted(read))}, which corpus.filter"
            f" names; there are those of {', '.join(syntaxes())}"
        )


def check_own_dataset(settings: ChatDataset | TextDataset, key: str) -> None:
    """Check a dataset that is made from the user's own files or a hub dataset."""
    if settings.validation + settings.test >= 1:
        raise UserError(f"{key}: validation and test leave nothing to train on")
    if (settings.path is None) == (settings.hub is None):
        raise UserError(f"{key}: give either `path` or `hub`")
    if (settings.hub is None) != (settings.revision is None):
        raise UserError(f"{key}.revision: required with `hub` (a commit of 40 hex digits), and only there")
    if settings.hub and settings.sha256:
        raise UserError(f"{key}.sha256: only with `path`; a hub dataset is pinned by its revision")


def check_dataset_sources(experiment: Experiment, sources: dict[str, Record]) -> None:
    """Check that each dataset's sources are in the table. Raises UserError: one is not."""
    for dataset, settings in experiment.corpus.compose.items():
        for number, source in enumerate(getattr(settings, "sources", None) or ()):
            check_name(f"corpus.compose.{dataset}.sources.{number}", source, list(sources))


def dated_sources(experiment: Experiment, sources: dict[str, Record]) -> list[str]:
    """The sources whose history is read: all with a split by time, else none. Raises UserError: one has no history."""
    if experiment.corpus.split.by != "time":
        return []
    undated = next((source for source in sources.values() if source.kind != "git"), None)
    if undated:
        raise UserError(
            f"corpus.split.by: time needs sources of kind git, but {undated.name} is of kind {undated.kind}, which has"
            f" no history; take it out of {experiment.sources}, or use `by: repository`"
        )
    return list(sources)


def decontaminated(experiment: Experiment, suites: dict[str, Record]) -> list[str]:
    """The files of problems that no document of the sources may share text with.

    Args:
        suites: by name, with benchmarks out of a repository where they are put.

    Raises:
        UserError: documents are to be decontaminated, but no file is known, or one is not there.
    """
    settings, key = experiment.corpus.filter.decontaminate, "corpus.filter.decontaminate"
    if not settings or not experiment.sources:
        return []
    if isinstance(settings, list):
        for file in settings:
            if not Path(file).is_file():
                raise UserError(f"{key}: {file}: no such file")
        return settings
    scored = []
    for suite in ("code", "keywords"):
        if suite in suites:
            scored += problem_files(suite, suites[suite])
    if not scored:
        raise UserError(
            f"{key}: give files, as neither evaluation.code nor evaluation.keywords names a file of problems"
        )
    return scored


def check_tokens(experiment: Experiment, name: str) -> None:
    """Check mixtures.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: a mixture has the name of a dataset, or a part that is not a dataset.
    """
    for mixture, settings in experiment.tokens.mix.items():
        if mixture in experiment.corpus.compose:
            raise UserError(f"{name}: tokens.mix.{mixture}: this names a dataset; give the mixture another name")
        for part in settings.parts:
            check_name(f"{name}: tokens.mix.{mixture}.parts", part, list(experiment.corpus.compose))
