"""Settings of `evaluation`: those of the suites, a file each in scripts/evaluation/suites/, and of the gates."""

from pydantic import create_model

from scripts.common.discovery import constants_in
from scripts.evaluation.suites import in_report_order
from scripts.experiment.settings.gates import Gates
from scripts.experiment.settings.record import Record

SUITES = in_report_order(constants_in("scripts.evaluation.suites", "Settings"))
# every experiment has perplexity; any other suite is off unless it is given
FIELDS = {name: (settings | None, None) for name, settings in SUITES.items()}
FIELDS["perplexity"] = SUITES["perplexity"], SUITES["perplexity"]()

Evaluation = create_model("Evaluation", __base__=Record, **FIELDS, gate=(Gates, Gates()))
