"""Settings of an experiment file: what is done with which data and model, wherever it runs."""

from typing import Annotated

from pydantic import Field

from scripts.experiment.settings.ablate import Ablate
from scripts.experiment.settings.corpus import Corpus
from scripts.experiment.settings.evaluation import Evaluation
from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Record
from scripts.experiment.settings.sources import Sources
from scripts.experiment.settings.tokens import Tokens
from scripts.experiment.settings.training import Stage, Training


class Experiment(Record):
    experiment: Text = Field(description="Name of the experiment; shown in the report.")
    extends: Text | None = Field(
        None,
        description="Another experiment file, which this one changes: mappings are merged key by key, `null` takes"
        " a key away, all else is replaced.",
    )
    results: Annotated[str, Field(pattern=r"^results(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$")] = Field(
        "results",
        description="Results root: `results` or a folder below it, so that several experiments live side by side.",
    )
    seed: int = Field(42, ge=0, description="Seed from which all others are derived.")
    sources: Sources | None = None
    corpus: Corpus
    tokens: Tokens = Tokens()
    training: Training | None = Field(
        None,
        description="The base model and the stages. Without it an experiment is of data alone: all that can be made are"
        " the datasets and their packed rows, by target `data`, and `evaluation` is not used.",
    )
    monitoring: str = Field(
        "default",
        pattern="^[a-z0-9][a-z0-9_.-]*$",
        description="How the stages are watched: `config/monitoring/{name}.yaml`; no setting there reruns anything.",
    )
    evaluation: Evaluation = Evaluation()
    ablate: Ablate | None = None

    @property
    def stages(self) -> dict[str, Stage]:
        """The stages by name; none in an experiment of data alone."""
        return self.training.train if self.training else {}
