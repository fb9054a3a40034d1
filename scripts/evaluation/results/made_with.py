"""Compare the settings that models and scores were made with, by their provenance, with those of the experiment.

    check_made_with(experiment)      # raises UserError, naming the file and the setting

The workflow makes again what was made with other settings. This is the last look before eval.json says that they count.
"""

from pathlib import Path

from scripts.common.errors import UserError
from scripts.experiment.causes import setting_changes
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import MANIFEST, Layout
from scripts.experiment.provenance import provenance_file, read_provenance
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import to_dict
from scripts.experiment.stage_seeds import further_models
from scripts.experiment.suites import scored_models


def expected_settings(experiment: Experiment) -> dict[Path, dict]:
    """The first output of each job that made a model or scores → the settings that it must have been made with."""
    layout = Layout(Path(experiment.results))
    view = ExperimentView(experiment, {}, layout)
    expected = {}
    for name in view.own_models:
        expected[layout.model(name) / MANIFEST] = to_dict(view.stages[name])
    models = scored_models(experiment.evaluation, list(experiment.stages), further_models(experiment.stages))
    for suite, names in models.items():
        if suite == "human":  # its settings are those of the sheet that people filled
            continue
        for name in names:
            expected[layout.suite(suite, name) / "scores.json"] = to_dict(view.suites[suite])
    return expected


def check_made_with(experiment: Experiment) -> dict[str, str]:
    """Refuse models and scores that were made with other settings than the experiment's.

    Returns:
        provenance file → rule and code fingerprint; a result that was made by hand, without the workflow, has none.

    Raises:
        UserError: one was made with other settings, or its provenance is damaged.
    """
    codes = {}
    for output, expected in expected_settings(experiment).items():
        path = provenance_file(output)
        if not path.is_file():
            continue
        made = read_provenance(path)
        if changes := setting_changes(made.settings, expected):
            raise UserError(
                f"{output}: it was made with another setting than the experiment's: {changes[0]}; run the workflow"
                " without --touch, so that it is made again"
            )
        codes[str(path)] = f"{made.rule} {made.code}"
    return codes
