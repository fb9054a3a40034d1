"""Settings of a monitoring file, `config/monitoring/{name}.yaml`: how a stage is watched, never what it computes.

How often a stage logs and saves and how many checkpoints it keeps stand here: none of it changes weights, so a change
reruns nothing. With `keep_best` the best checkpoint is saved and kept whatever these say.
"""

from pydantic import Field

from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Number, Record, Steps


class Alerts(Record):
    grad_norm: Number = Field(100, gt=0, description="Alert when the gradient norm, before clipping, exceeds this.")
    memory_gib: Number | None = Field(
        None,
        gt=0,
        description="Alert when the peak memory of any process exceeds this (GiB; reserved on a GPU, resident on the"
        " CPU).",
    )


class Monitoring(Record):
    log_steps: Steps = Field(
        0.005,
        description="Steps between logged metrics; below 1 a share of all steps, so that with 0.005 there are at least"
        " 200.",
    )
    save_steps: Steps = Field(
        0.1,
        description="Steps between checkpoints; below 1 a share of all steps. A killed job loses at most this much of"
        " its work.",
    )
    keep_checkpoints: int = Field(3, ge=1, description="Number of checkpoints that are kept.")
    alerts: Alerts = Alerts()
    webhook: str | None = Field(
        None,
        pattern=r"^(https?://|\$)",
        description="Address to which each alert is sent as a JSON POST. `$NAME` is replaced by the environment"
        " variable NAME, for a secret address. Training waits 3 seconds for it at most; a failure is only logged.",
    )
    wandb: Text | None = Field(
        None,
        description="Project to log to with Weights & Biases (`uv pip install wandb`). WANDB_MODE and WANDB_ENTITY work"
        " as always, but without WANDB_MODE it writes to the stage's work folder, for `wandb sync` later.",
    )
