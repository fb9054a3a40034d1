"""Settings of a monitoring file, `config/monitoring/{name}.yaml`: how a stage is watched, never what it computes."""

from typing import Literal

from pydantic import Field

from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Number, Record


class Alerts(Record):
    window: int = Field(50, ge=2, description="Logged steps that a running median is taken over.")
    loss_factor: Number = Field(2, gt=1, description="Alert when the loss exceeds this many times its running median.")
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
        description="Alert when no step ends for this many times the median duration of a step, at least 5 s;"
        " evaluations and checkpoints do not count.",
    )
    temperature_c: Number = Field(87, gt=0, description="Alert when the hottest GPU exceeds this (°C).")


class Wandb(Record):
    """Also log to Weights & Biases (`uv pip install wandb`)."""

    project: Text = Field(description="Project.")
    entity: Text | None = Field(None, description="User or team.")
    mode: Literal["offline", "online"] = Field(
        "offline", description="`offline` writes below the work folder, for `wandb sync` later."
    )


class Monitoring(Record):
    alerts: Alerts = Alerts()
    webhook: str | None = Field(
        None,
        pattern=r"^(https?://|\$)",
        description="Address that gets each alert as a JSON POST; `$NAME` is read from the environment, for an address"
        " that is a secret.",
    )
    webhook_seconds: Number = Field(
        3,
        gt=0,
        le=60,
        description="Training waits this long for the webhook at most; a failure is a log line (seconds).",
    )
    wandb: Wandb | None = None
