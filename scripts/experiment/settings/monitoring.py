"""Settings of a monitoring file, `config/monitoring/{name}.yaml`: how a stage is watched, never what it computes."""

from typing import Literal

from pydantic import Field

from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Number, Record


class Alerts(Record):
    loss_factor: Number = Field(
        2, gt=1, description="Alert when the loss exceeds this many times its running median, over 50 logged steps."
    )
    throughput_factor: Number = Field(
        0.5, gt=0, lt=1, description="Alert when tokens per second fall below this share of their running median."
    )
    grad_norm: Number = Field(100, gt=0, description="Alert when the gradient norm, before clipping, exceeds this.")
    memory_gib: Number | None = Field(
        None,
        gt=0,
        description="Alert when the peak memory of any process exceeds this (GiB; reserved on a GPU, resident on the"
        " CPU).",
    )
    stall_factor: Number = Field(
        20,
        gt=1,
        description="Alert when no step ends for this many times the median duration of a step (and at least 5 s);"
        " the time of evaluations and checkpoints is not counted.",
    )
    temperature_c: Number = Field(87, gt=0, description="Alert when the hottest GPU exceeds this (°C).")


class Wandb(Record):
    """Also log to Weights & Biases (`uv pip install wandb`)."""

    project: Text = Field(description="Name of the project.")
    entity: Text | None = Field(None, description="User or team.")
    mode: Literal["offline", "online"] = Field(
        "offline", description="`offline` writes to the stage's work folder, for `wandb sync` later."
    )


class Monitoring(Record):
    alerts: Alerts = Alerts()
    webhook: str | None = Field(
        None,
        pattern=r"^(https?://|\$)",
        description="Address to which each alert is sent as a JSON POST. `$NAME` is replaced by the environment"
        " variable NAME, for a secret address. Training waits 3 seconds for it at most; a failure is only logged.",
    )
    wandb: Wandb | None = None
