"""Settings of `evaluation`: those of the suites, a file each in scripts/evaluation/suites/, and of the gates."""

from pydantic import Field, create_model

from scripts.common.discovery import constants_in
from scripts.evaluation.suites import in_report_order
from scripts.experiment.settings.gates import Gates
from scripts.experiment.settings.record import Names, Record

SUITES = in_report_order(constants_in("scripts.evaluation.suites", "Settings"))
GENERAL = Field(
    None,
    description="Datasets or tasks, of any suite of this experiment, that measure forgetting, such as held-out files of"
    " other repositories or lm-eval tasks. The report then says what a model gained on all other datasets and what it"
    " lost on these.",
)
# every experiment has perplexity; any other suite is off unless it is given
FIELDS = {name: (settings | None, None) for name, settings in SUITES.items()}
FIELDS["perplexity"] = SUITES["perplexity"], SUITES["perplexity"]()

Evaluation = create_model(
    "Evaluation", __base__=Record, general=(Names | None, GENERAL), **FIELDS, gate=(Gates, Gates())
)
