"""The callbacks of a stage, in the order in which each event of the trainer calls them.

add_callbacks(trainer, stage, monitoring, optimizer_check, owner, first_step=0)
"""

import importlib.util
import os
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter
from transformers import PrinterCallback, TrainerCallback
from transformers.integrations import TensorBoardCallback, WandbCallback

from scripts.common.errors import UserError
from scripts.experiment.settings.monitoring import Monitoring
from scripts.training.engine.checkpoints import CompleteCheckpoints
from scripts.training.engine.early_stopping import EarlyStoppingCallback
from scripts.training.engine.parallel import ShardingCheck, current_layout
from scripts.training.engine.run_lock import Ownership
from scripts.training.engine.trainer import StageTrainer
from scripts.training.monitoring.alerts import Alerts, AlertThresholds, StallAlert
from scripts.training.monitoring.interruption import Interruption
from scripts.training.monitoring.metric_log import MetricLog
from scripts.training.monitoring.progress import ProgressFile
from scripts.training.monitoring.throughput import Throughput
from scripts.training.planning.resolved_stage import ResolvedStage


def add_callbacks(
    trainer: StageTrainer,
    stage: ResolvedStage,
    monitoring: Monitoring,
    optimizer_check: TrainerCallback | None,
    owner: Ownership | None,
    first_step: int,
) -> None:
    """Add the stage's callbacks; each event calls them in this order."""
    name, settings, machine, tokens_per_step = stage.name, stage.settings, stage.machine, stage.tokens_per_step
    work, first_rank = Path(trainer.args.output_dir), trainer.args.process_index == 0
    metrics = work / "metrics.jsonl"
    alerts = Alerts(work / "alerts.jsonl", name, monitoring)
    progress = ProgressFile(work / "progress.json", name, tokens_per_step, alerts)
    # purge_step hides events that a killed run logged after the resumed checkpoint
    tensorboard = SummaryWriter(str(work / "tensorboard"), purge_step=first_step or None) if first_rank else None
    callbacks: list[TrainerCallback] = [
        # checks that end a stage which would train something else than configured
        ShardingCheck(trainer, machine),
        *([optimizer_check] if optimizer_check else []),
        # figures that are added to the logs, then all that writes the logs
        Throughput(tokens_per_step, settings.sequence_length, bf16=settings.precision == "bf16"),
        AlertThresholds(alerts, metrics),
        MetricLog(metrics, name, tokens_per_step),
        progress,
        *([wandb_callback(trainer, monitoring.wandb, name)] if monitoring.wandb and first_rank else []),
        *([TensorBoardCallback(tensorboard)] if first_rank else []),
        # checkpoints, and what ends training before the last step
        CompleteCheckpoints(work, stage.keep_checkpoints, current_layout(machine), owner),
        Interruption(trainer, name, trainer.train_dataset.shards, alerts, progress, owner),
        StallAlert(alerts),
        EarlyStoppingCallback(settings),  # the last: it ends a resumed run that has no step left
    ]
    trainer.remove_callback(PrinterCallback)
    for callback in callbacks:
        trainer.add_callback(callback)


def wandb_callback(trainer: StageTrainer, project: str, stage: str) -> WandbCallback:
    """transformers' callback for Weights & Biases, which continues the same run when a stage is resumed.

    Raises:
        UserError: the package is not installed.
    """
    if importlib.util.find_spec("wandb") is None:
        raise UserError("monitoring: wandb is not installed: `uv pip install wandb`, or leave `wandb` out")
    work = Path(trainer.args.output_dir)  # its name is a hash of all that determines the weights
    trainer.args.run_name = stage
    os.environ.update(WANDB_PROJECT=project, WANDB_DIR=str(work), WANDB_RUN_ID=work.name, WANDB_RESUME="allow")
    os.environ.setdefault("WANDB_MODE", "offline")
    return WandbCallback()
