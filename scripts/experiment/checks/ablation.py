"""Whether each arm of `ablate` is an experiment that can run, and changes the model that is compared."""

from scripts.common.errors import UserError
from scripts.experiment.arms import REFERENCE, arm_experiment, compared_model, expand
from scripts.experiment.checks.datasets import check_datasets
from scripts.experiment.checks.stages import check_training
from scripts.experiment.checks.tokens import check_tokens
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.suites import WITHOUT_PAIRS, check_name, configured, metrics_of


def ablated_suites(experiment: Experiment) -> list[str]:
    """The suites that the models of all arms are scored by: those with a metric that is compared."""
    compared = experiment.ablate.metrics
    return [
        suite
        for suite, settings in configured(experiment.evaluation).items()
        if suite not in WITHOUT_PAIRS and (compared is None or {*compared} & {*metrics_of(suite, settings)})
    ]


def check_without_seeds(experiment: Experiment, key: str) -> None:
    """Refuse `seeds` of a stage beside those of `ablate`.

    Raises:
        UserError: a stage has some; the line starts with `key`.
    """
    for stage, settings in experiment.stages.items():
        if settings.seeds:
            raise UserError(
                f"{key}training.train.{stage}.seeds: not with `ablate`; use ablate.seeds, which is for all arms"
            )


def check_ablation(experiment: Experiment, name: str) -> None:
    """Check the arms.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: an arm's settings are wrong or do not agree, or it changes nothing.
    """
    if experiment.ablate is None:
        return
    key = f"{name}: ablate"
    check_name(f"{key}.model", compared_model(experiment), list(experiment.stages))
    if REFERENCE in experiment.ablate.arms:
        raise UserError(f"{key}.arms.{REFERENCE}: this names the experiment itself; give the arm another name")
    check_without_seeds(experiment, f"{name}: ")
    measured = [
        metric
        for suite, settings in configured(experiment.evaluation).items()
        if suite not in WITHOUT_PAIRS
        for metric in metrics_of(suite, settings)
    ]
    for metric in experiment.ablate.metrics or ():
        check_name(f"{key}.metrics", metric, measured)
    for arm in experiment.ablate.arms:
        variant, place = arm_experiment(experiment, arm, name), f"{key}.arms.{arm}"
        check_datasets(variant, place)
        check_tokens(variant, place)
        check_training(variant, place)
        check_without_seeds(variant, f"{place}.")
        check_name(f"{place}.training.train", compared_model(experiment), list(variant.stages))
    arms = expand(experiment, name)
    for arm, models in arms.models.items():
        if arm != REFERENCE and models == arms.models[REFERENCE]:
            raise UserError(
                f"{key}.arms.{arm}: does not change how {compared_model(experiment)} is trained; change a setting of"
                " a stage or dataset that leads to it, or the seed"
            )
