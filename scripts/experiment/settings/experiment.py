"""Settings of an experiment file: what is done with which data and model, wherever it runs."""

from typing import Annotated

from pydantic import Field, create_model

from scripts.common.discovery import constants_in
from scripts.evaluation.suites import in_report_order
from scripts.experiment.settings.corpus import Corpus
from scripts.experiment.settings.record import Record, Seed, Text
from scripts.experiment.settings.suites import Gates
from scripts.experiment.settings.training import Release, Stage, Tokens, Training

SUITES = in_report_order(constants_in("scripts.evaluation.suites", "Settings"))
# every experiment has perplexity; any other suite is off unless it is given
FIELDS = {name: (settings | None, None) for name, settings in SUITES.items()}
FIELDS["perplexity"] = SUITES["perplexity"], SUITES["perplexity"]()

Evaluation = create_model("Evaluation", __base__=Record, **FIELDS, gate=(Gates, Gates()))


class Experiment(Record):
    experiment: Text = Field(description="Name of the experiment; shown in the report.")
    extends: Text | None = Field(
        None,
        description="Another experiment file that this one is based on: mappings are merged key by key, `null`"
        " removes a key, any other value replaces the one there.",
    )
    results: Annotated[str, Field(pattern=r"^results(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$")] = Field(
        "results", description="Results root: `results`, or a folder below it to keep several experiments side by side."
    )
    seed: Seed = Field(42, description="Seed from which all others are derived.")
    sources: Text | None = Field(
        None, description="Table of sources (TSV): name, kind, location, pin, language, priority, licence."
    )
    corpus: Corpus
    tokens: Tokens = Tokens()
    training: Training = Field(description="The base model and the stages.")
    monitoring: str = Field(
        "default",
        pattern="^[a-z0-9][a-z0-9_.-]*$",
        description="Name of the monitoring file, `config/monitoring/{name}.yaml`. Changing it reruns nothing.",
    )
    evaluation: Evaluation = Evaluation()
    release: Release = Release()

    @property
    def stages(self) -> dict[str, Stage]:
        """The stages by name."""
        return self.training.train
