"""All that watches a stage, put together: what is written of each step, what is told, what ends it early."""

import importlib.util
from pathlib import Path

from transformers import TrainerCallback

from scripts.common.cli import UserError
from scripts.training.engine.nonfinite_loss import FiniteTrainer
from scripts.training.monitoring.alerts import Alerts, Thresholds
from scripts.training.monitoring.interruption import Stop
from scripts.training.monitoring.metric_log import MetricLog
from scripts.training.monitoring.progress import ProgressFile
from scripts.training.monitoring.throughput import Monitor


class WandbLog(TrainerCallback):
    """Sends what is logged to Weights & Biases, or writes it below the work folder for `wandb sync`.

    Raises:
        UserError: the package is not installed.
    """

    def __init__(self, settings: dict, stage: str, work: Path):
        if importlib.util.find_spec("wandb") is None:
            raise UserError("monitoring: wandb is not installed: `uv pip install wandb`, or leave `wandb` out")
        self.settings, self.stage, self.work = settings, stage, work

    def on_train_begin(self, args, state, control, **kwargs):
        import wandb

        # the work folder's name is the stage's fingerprint: a resumed stage goes on in the same run
        settings = {"dir": str(self.work), "name": self.stage, "id": self.work.name, "resume": "allow", **self.settings}
        self.run = wandb.init(**settings)

    def on_log(self, args, state, control, logs, **kwargs):
        self.run.log(dict(logs), step=state.global_step)

    def on_train_end(self, args, state, control, **kwargs):
        self.run.finish()


def watch(trainer: FiniteTrainer, name: str, stage: dict, monitoring: dict, work: Path) -> None:
    """Add the callbacks that watch a stage to its trainer, in the order in which they need each other."""
    tokens_per_step = stage["global_batch"] * stage["sequence_length"]
    alerts = Alerts(work / "alerts.jsonl", name, monitoring)
    metrics = work / "metrics.jsonl"
    trainer.add_callback(Monitor(tokens_per_step, stage["sequence_length"], stage["precision"] == "bf16"))
    trainer.add_callback(Thresholds(alerts, metrics))
    trainer.add_callback(MetricLog(metrics, name, tokens_per_step))
    progress = ProgressFile(work / "progress.json", name, tokens_per_step, alerts)
    trainer.add_callback(progress)
    if "wandb" in monitoring and trainer.args.process_index == 0:
        trainer.add_callback(WandbLog(monitoring["wandb"], name, work))
    trainer.add_callback(Stop(trainer, name, trainer.train_dataset.shards, alerts, progress))
