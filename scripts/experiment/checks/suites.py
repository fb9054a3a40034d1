"""Whether the suites' settings agree with each other and name what is there."""

from scripts.common.discovery import constants_in
from scripts.common.errors import UserError
from scripts.evaluation.suites import configured, scored_datasets
from scripts.experiment.settings.evaluation import Evaluation
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.generation import Generation
from scripts.experiment.settings.record import check_name


def with_datasets(experiment: Experiment) -> Evaluation:
    """The evaluation in which suites that name no datasets have all that they can score."""
    completed, updates = constants_in("scripts.evaluation.suites", "completed"), {}
    for suite, settings in configured(experiment.evaluation).items():
        if suite in completed:
            updates[suite] = completed[suite](settings, experiment)
    return experiment.evaluation.model_copy(update=updates)


def check_suites(experiment: Experiment, name: str) -> None:
    """Check the suites of an experiment whose evaluation went through `with_datasets`.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: their settings do not agree, or name a file, dataset or model that is not there.
    """
    evaluation, checks, known = experiment.evaluation, constants_in("scripts.evaluation.suites", "check"), []
    for suite, settings in configured(evaluation).items():
        key = f"{name}: evaluation.{suite}"
        if isinstance(settings, Generation) and settings.temperature == 0 and settings.samples > 1:
            raise UserError(f"{key}.samples: with temperature 0 all samples are the same; set a temperature above 0")
        if suite in checks:
            checks[suite](settings, experiment, key)
        if suite != "human":
            known += scored_datasets(evaluation, suite)
    for dataset in evaluation.general or ():
        check_name(f"{name}: evaluation.general", dataset, list(dict.fromkeys(known)))
