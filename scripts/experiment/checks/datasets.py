"""Whether the settings of sources, split and datasets agree with each other."""

from scripts.common.cli import UserError
from scripts.experiment.settings.corpus import ChatDataset, TextDataset
from scripts.experiment.settings.experiment import Experiment


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


def check_own_dataset(settings: ChatDataset | TextDataset, key: str) -> None:
    """Check a dataset that is made from the user's own files or a hub dataset.

    Raises:
        UserError: its settings do not agree; the line starts with `key`.
    """
    if settings.validation + settings.test >= 1:
        raise UserError(f"{key}: validation and test leave nothing to train on")
    if (settings.path is None) == (settings.hub is None):
        raise UserError(f"{key}: give either `path` or `hub`")
    if (settings.hub is None) != (settings.revision is None):
        raise UserError(f"{key}.revision: required with `hub` (a commit of 40 hex digits), and only there")
    if settings.hub and settings.sha256:
        raise UserError(f"{key}.sha256: only with `path`; a hub dataset is pinned by its revision")
