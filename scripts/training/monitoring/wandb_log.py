"""Also log a stage to Weights & Biases, which is not among the packages that are installed by default."""

import importlib.util
from pathlib import Path

from transformers import TrainerCallback

from scripts.common.errors import UserError
from scripts.experiment.settings.monitoring import Wandb
from scripts.experiment.settings.record import to_dict


class WandbLog(TrainerCallback):
    """Sends what is logged to Weights & Biases, or writes it below the work folder for `wandb sync`.

    Raises:
        UserError: the package is not installed.
    """

    def __init__(self, settings: Wandb, stage: str, work: Path):
        if importlib.util.find_spec("wandb") is None:
            raise UserError("monitoring: wandb is not installed: `uv pip install wandb`, or leave `wandb` out")
        self.settings, self.stage, self.work = settings, stage, work

    def on_train_begin(self, args, state, control, **kwargs):
        import wandb

        # the work folder's name is the stage's fingerprint: a resumed stage continues the same run
        run = {"dir": str(self.work), "name": self.stage, "id": self.work.name, "resume": "allow"}
        self.run = wandb.init(**run, **to_dict(self.settings))

    def on_log(self, args, state, control, logs, **kwargs):
        self.run.log(dict(logs), step=state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        self.run.finish()
