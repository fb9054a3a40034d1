"""Whether each gate names a metric, model and dataset that are measured."""

from scripts.common.errors import UserError
from scripts.evaluation.suites import configured, scored_datasets, suites_of
from scripts.evaluation.suites.latency import METRICS as TIMED
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import check_name, to_dict

# metrics of a stage itself, from its summary.json; a suite measures all others on a dataset
STAGE_METRICS = ("loss", "gradient_norm", "memory_gib")


def check_gates(experiment: Experiment, name: str) -> None:
    """Check the gates.

    Args:
        name: the experiment's file, for errors.

    Raises:
        UserError: a gate names something that is not measured.
    """
    suites, stages = configured(experiment.evaluation), experiment.training.train
    measured = {}
    for suite, measures in suites_of({suite: to_dict(settings) for suite, settings in suites.items()}).items():
        measured |= dict.fromkeys(measures.metrics, suite)
    timed = TIMED if "latency" in suites else ()
    without_dataset = (*STAGE_METRICS, *timed)
    for number, gate in enumerate(experiment.evaluation.gate.gates):
        key = f"{name}: evaluation.gate.gates.{number}"
        if gate in experiment.evaluation.gate.gates[:number]:
            raise UserError(f"{key}: the same as an earlier gate; remove one")
        if gate.metric in without_dataset:
            for setting in ("dataset", "language", "against"):
                if setting in gate.model_fields_set:
                    raise UserError(f"{key}.{setting}: not with `metric: {gate.metric}`, which needs no dataset")
            check_name(f"{key}.model", gate.model, stages if gate.metric in STAGE_METRICS else ["base", *stages])
            continue
        check_name(f"{key}.metric", gate.metric, [*measured, *timed, *STAGE_METRICS])
        if gate.dataset is None:
            raise UserError(f"{key}.dataset: required with `metric: {gate.metric}`")
        suite = measured[gate.metric]
        check_name(f"{key}.dataset", gate.dataset, scored_datasets(experiment.evaluation, suite))
        models = ["base", *stages]
        check_name(f"{key}.model", gate.model, models)
        if gate.against is not None:
            check_name(f"{key}.against", gate.against, models)
            seeds = [len(stages[name].seeds or ()) if name in stages else 0 for name in (gate.model, gate.against)]
            if all(seeds) and seeds[0] != seeds[1]:
                raise UserError(
                    f"{key}.against: {gate.model} has {seeds[0]} seeds, {gate.against} {seeds[1]}; give both the same"
                    " number"
                )
