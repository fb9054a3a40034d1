"""Settings of `ablate`: variants of an experiment, trained with several seeds and compared with it."""

from typing import Annotated, Any

from pydantic import Field

from scripts.experiment.settings.record import Number, Record, Unique

ArmName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class Ablate(Record):
    """Off unless given. Arms are variants of the experiment; each is trained with several seeds and compared with the
    experiment."""

    arms: dict[ArmName, dict[str, Any]] = Field(
        min_length=1,
        description="The arms by name. Each changes settings of `corpus.compose`, `tokens.mix`, `training.train` or"
        " `seed`, merged as by `extends`. An arm that changes only `seed` shows the effect of chance (A/A"
        " test).",
    )
    seeds: int = Field(
        3,
        ge=2,
        description="Number of seeds of each arm and of the experiment; the experiment's own stages are its first"
        " seed.",
    )
    model: str | None = Field(None, description="Stage whose model is compared; by default the last one.")
    metrics: Annotated[list[str], Unique, Field(min_length=1)] | None = Field(
        None,
        description="Metrics to compare; by default all metrics by which stages are compared. As p is corrected for"
        " the number of comparisons, fewer metrics make smaller differences detectable.",
    )


class ArmScores(Record):
    """Which scores rule `ablation` compares; made of the experiment, not written in its file."""

    models: dict[str, list[str]]  # arm, the experiment itself first → its model of each seed
    datasets: dict[str, list[str]]  # suite → datasets
    metrics: list[str] | None
    k: list[int]  # of pass@k
    confidence: Number
    unit: str  # what intervals are over: `file` or `repository`
