"""Settings of `ablate`: variants of an experiment, trained with several seeds and compared with it."""

from typing import Annotated, Any

from pydantic import Field

from scripts.experiment.settings.record import Number, Record, Unique

ArmName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class Ablate(Record):
    """Runs where it is given: variants of the experiment, each trained with several seeds and compared with it."""

    arms: dict[ArmName, dict[str, Any]] = Field(
        min_length=1,
        description="Each lays settings of `corpus.compose`, `tokens.mix`, `training.train` or `seed` over the"
        " experiment, as `extends` does. An arm with another `seed` alone shows what chance does (A/A).",
    )
    seeds: int = Field(
        3, ge=2, description="Seeds of each arm and of the experiment itself; its own stages are the first."
    )
    model: str | None = Field(None, description="Stage whose model is compared; the last one by default.")
    metrics: Annotated[list[str], Unique, Field(min_length=1)] | None = Field(
        None,
        description="Metrics compared; by default all by which stages are compared. p is corrected for the number of"
        " comparisons, so fewer metrics show smaller differences.",
    )


class ArmScores(Record):
    """Which scores rule `ablation` compares; made of the experiment, not written in its file."""

    models: dict[str, list[str]]  # arm, the experiment itself first → its model of each seed
    datasets: dict[str, list[str]]  # suite → datasets
    metrics: list[str] | None
    k: list[int]  # of pass@k
    confidence: Number
