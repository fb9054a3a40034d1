"""The callbacks of a stage, in the order in which each event of the trainer calls them.

add_callbacks(trainer, stage, monitoring, optimizer_check, owner, first_step=0)

A stage ends before its last step on SIGTERM (a time limit), SIGINT (Ctrl-C) or SIGHUP (a closed terminal), on a loss
that is not finite, and where another run of the stage has taken over the work folder (run_lock.py); all exit non-zero.
On such a signal to any one rank all ranks finish the step or the next one, save a whole checkpoint and exit; the same
command resumes there. So give a time limit some minutes of warning, as long as two steps, an evaluation and a
checkpoint take (Slurm: `--signal=TERM@600`). Before the first step a signal ends the process at once; after the last it
is ignored.
"""

import datetime
import importlib.util
import os
import shutil
import signal
import time
from itertools import chain
from pathlib import Path

import torch
from accelerate import PartialState
from torch.utils.tensorboard import SummaryWriter
from transformers import PrinterCallback, TrainerCallback, TrainerState
from transformers.integrations import TensorBoardCallback, WandbCallback
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.trainer import TRAINER_STATE_NAME

from scripts.common.errors import MachineFault, UserError
from scripts.common.files import write_json
from scripts.experiment.settings.machine import Machine, Monitoring
from scripts.experiment.settings.training import Stage
from scripts.tokens.packing.shards import Shards
from scripts.training.engine.checkpoint_folders import (
    is_complete,
    mark_complete,
    read_marker,
    remove_checkpoints_except,
    step_of,
)
from scripts.training.engine.parallel import Layout, ShardingCheck, current_layout, gathered_weights_on_save
from scripts.training.engine.parameters import first_layer_with_gradients
from scripts.training.engine.run_lock import Ownership
from scripts.training.engine.trainer import PassRecordingTrainer, StageTrainer, validation_losses
from scripts.training.monitoring.alerts import Alerts, AlertThresholds, StallAlert
from scripts.training.monitoring.measurements import FreeMemory, MetricLog, Throughput
from scripts.training.planning.resolved_stage import ResolvedStage


def saved_layout(folder: Path) -> Layout:
    """The layout of a whole checkpoint."""
    return Layout(**read_marker(folder)["made_by"])


class CompleteCheckpoints(TrainerCallback):
    """Marks each saved checkpoint whole once all ranks have written theirs; keeps the newest `keep` and the best.
    `owner`: the first rank's claim on the work folder, None on other ranks."""

    def __init__(self, work: Path, keep: int, layout: Layout, owner: Ownership | None):
        self.work, self.keep, self.layout, self.owner = work, keep, layout, owner

    def on_save(self, args, state, control, **kwargs):
        PartialState().wait_for_everyone()
        if self.owner:
            self.owner.check()
            mark_complete(self.work / f"checkpoint-{state.global_step}", self.layout._asdict())
            complete = sorted(filter(is_complete, self.work.glob("checkpoint-*")), key=step_of)
            best = self.work / f"checkpoint-{state.best_global_step}"  # known only to a stage with `keep_best`
            remove_checkpoints_except(self.work, {*complete[-self.keep :], best})
        PartialState().wait_for_everyone()


def snapshot_folder(work: Path, step: int) -> Path:
    """Where a run keeps its weights after a step of its curve."""
    return work / f"snapshot-{step}"


class Snapshots(TrainerCallback):
    """Keeps the weights after the steps of the stage's `curve`, as they would be published. A resumed run that passes
    such a step again writes the same weights again."""

    def __init__(self, trainer: StageTrainer, work: Path, steps: list[int]):
        self.trainer, self.work, self.steps = trainer, work, steps

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step in self.steps:
            folder = snapshot_folder(self.work, state.global_step)
            with gathered_weights_on_save(self.trainer):
                self.trainer.save_model(str(folder.with_suffix(".new")))
            if state.is_world_process_zero:
                shutil.rmtree(folder, ignore_errors=True)
                folder.with_suffix(".new").rename(folder)
            PartialState().wait_for_everyone()


class AlreadyFinished(Exception):
    """Raised at the start of training if the resumed checkpoint is the last one: there is no step left to do."""


def evaluations_without_improvement(losses: list[float], min_delta: float) -> int:
    """Evaluations since the last one that was better than the best before it by more than `min_delta`."""
    best, since = float("inf"), 0
    for loss in losses:
        since += 1
        if loss < best - min_delta:
            best, since = loss, 0
    return since


def best_checkpoint(checkpoint: Path) -> Path | None:
    """The best checkpoint up to the given one, by its saved state; None if none is known."""
    step = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME)).best_global_step
    if step is not None:
        return checkpoint.with_name(f"checkpoint-{step}")
    return None


class EarlyStoppingCallback(TrainerCallback):
    """Stops after `patience` evaluations without improvement, and saves each new best model.

    Add it last: on_train_begin raises AlreadyFinished for a resumed run that has no step left.
    """

    def __init__(self, settings: Stage):
        self.settings, self.keep_best = settings.early_stopping, settings.keep_best

    def patience_exhausted(self, state: TrainerState) -> bool:
        if self.settings is None:
            return False
        losses = validation_losses(state)
        return evaluations_without_improvement(losses, self.settings.min_delta) >= self.settings.patience

    def on_train_begin(self, args, state, control, **kwargs):
        if state.global_step and (state.global_step >= state.max_steps or self.patience_exhausted(state)):
            raise AlreadyFinished

    def on_step_end(self, args, state, control, **kwargs):
        if self.keep_best and state.global_step >= state.max_steps:
            control.should_evaluate = True  # the last weights may be the best

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        if self.keep_best and (state.best_metric is None or metrics["eval_loss"] < state.best_metric):
            control.should_save = True
        if self.patience_exhausted(state):
            control.should_training_stop = control.should_save = True


def stopping_summary(state: TrainerState, settings: Stage) -> dict:
    """Facts for summary.json: mean of the logged losses, whether the stage stopped early, the best checkpoint."""
    losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    facts = {"train_loss": sum(losses) / len(losses) if losses else None}
    if settings.early_stopping:
        facts["stopped_early"] = state.global_step < state.max_steps
    if settings.keep_best:
        facts |= {"best_step": state.best_global_step, "best_eval_loss": state.best_metric}
    return facts


STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
WRITE_INTERVAL = 5.0  # seconds between writes, at least


class ProgressFile(TrainerCallback):
    """Writes {"stage", "state", "step", "steps", "tokens", "tokens_left", "tokens_per_second", "eta_seconds", "loss",
    "last_alert", "updated"} atomically. `state` is running, trained or stopped; a stage that was killed stays
    `running`, with an old `updated`. Rate and time left are means since this process began training, with pauses.

    Attributes:
        final_state: the `state` to write at the end of training.
    """

    def __init__(self, path: Path, stage: str, tokens_per_step: int, alerts: Alerts):
        self.path, self.stage, self.tokens_per_step, self.alerts = path, stage, tokens_per_step, alerts
        self.loss, self.final_state = None, "trained"

    def on_train_begin(self, args, state, control, **kwargs):
        self.began, self.begin_step = time.monotonic(), state.global_step
        self.write(state, "running")

    def on_step_end(self, args, state, control, **kwargs):
        if time.monotonic() - self.written >= WRITE_INTERVAL:
            self.write(state, "running")

    def on_log(self, args, state, control, logs, **kwargs):
        if "loss" in logs:
            self.loss = logs["loss"]
            self.write(state, "running")

    def on_train_end(self, args, state, control, **kwargs):
        self.write(state, self.final_state)

    def write(self, state, label: str) -> None:
        self.written = time.monotonic()
        if not state.is_world_process_zero:
            return
        done, left = state.global_step - self.begin_step, state.max_steps - state.global_step
        seconds = self.written - self.began
        record = {
            "stage": self.stage,
            "state": label,
            "step": state.global_step,
            "steps": state.max_steps,
            "tokens": state.global_step * self.tokens_per_step,
            "tokens_left": left * self.tokens_per_step,
            "tokens_per_second": round(done * self.tokens_per_step / seconds, 1) if done else None,
            "eta_seconds": round(left * seconds / done, 1) if done else None,
            "loss": self.loss,
            "last_alert": self.alerts.last,
            "updated": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        write_json(self.path, record)


DOCUMENTS_SHOWN = 20  # in the error line; alerts.jsonl has all


class Interruption(TrainerCallback):
    """After each step all ranks agree, in one small reduction, whether to stop.

    What they agreed on is read after the next step, so that the host does not wait for the GPU; at once after a step
    that is logged, evaluated or saved, and after the last.

    Args:
        trainer: the trainer that calls it.
        shards: the training rows.
        owner: the first rank's claim on the work folder, None on other ranks.
    """

    def __init__(
        self,
        trainer: PassRecordingTrainer,
        stage: str,
        shards: Shards,
        alerts: Alerts,
        progress: ProgressFile,
        owner: Ownership | None,
    ):
        self.trainer, self.stage, self.shards = trainer, stage, shards
        self.alerts, self.progress, self.owner = alerts, progress, owner
        self.received, self.stopped_at, self.signal = 0, None, ""
        self.unread = []  # (step, its passes, what the ranks agreed on), oldest first

    def on_train_begin(self, args, state, control, **kwargs):
        for number in STOPS:
            signal.signal(number, self.note_signal)  # also where the rule's shell has them ignored

    def note_signal(self, number, frame) -> None:
        self.received = number

    def on_step_begin(self, args, state, control, **kwargs):
        self.trainer.passes.clear()

    def on_step_end(self, args, state, control, **kwargs):
        lost = self.owner is not None and self.owner.is_lost()
        local_flags = torch.tensor([self.received, lost], device=args.device)
        flags = torch.cat([local_flags, self.trainer.nonfinite().to(args.device)]).int()
        if args.world_size > 1:
            torch.distributed.all_reduce(flags, torch.distributed.ReduceOp.MAX)
        self.unread.append((state.global_step, list(self.trainer.passes), flags))
        last = state.global_step >= state.max_steps
        while len(self.unread) > 1 or (self.unread and self.reads_at_once(control, last)):
            step, passes, flags = self.unread.pop(0)
            received, lost, bad_loss, bad_norm = flags.tolist()
            if lost:
                exit_all_ranks(args, f"{self.stage}: {self.owner.lost_message()}" if self.owner else "")
            if bad_loss or bad_norm:
                self.trainer.passes[:] = passes
                self.end_nonfinite(args, state, step, bool(bad_loss))
            if received and not last:
                self.signal = signal.Signals(received).name
                self.stopped_at, self.progress.final_state = state.global_step, "stopped"
                control.should_log = control.should_save = control.should_training_stop = True
        return control

    def reads_at_once(self, control, last: bool) -> bool:
        """Whether the flags of this step are read before the next one: what is saved must be known to be finite."""
        return last or control.should_log or control.should_evaluate or control.should_save

    def on_train_end(self, args, state, control, **kwargs):
        if self.stopped_at is not None:
            exit_all_ranks(
                args,
                f"{self.stage}: stopped by {self.signal} at step {self.stopped_at} of {state.max_steps}, "
                "checkpoint saved; the same command resumes there",
                MachineFault,
            )

    def end_nonfinite(self, args, state, step: int, bad_loss: bool) -> None:
        """End the stage without a checkpoint of this step; the alert names the documents of all ranks.

        Args:
            step: whose loss or gradient norm is not finite; the trainer has its passes.
            bad_loss: whether a rank's loss is not finite; else it is the gradient norm.
        """
        documents = []
        if not bad_loss or self.trainer.nonfinite()[0]:
            documents = self.trainer.suspect_documents(self.shards)
        ranks = [documents]
        if args.world_size > 1:
            ranks = [None] * args.world_size
            torch.distributed.all_gather_object(ranks, documents)
        documents = list(dict.fromkeys(chain.from_iterable(ranks)))
        shown, rest = ", ".join(documents[:DOCUMENTS_SHOWN]), len(documents) - DOCUMENTS_SHOWN
        more = ""
        if rest > 0:
            more = f" and {rest} more (all in {self.alerts.path})"
        quantity = "loss" if bad_loss else "gradient norm"
        text = f"the {quantity} is not finite; documents of the batch: {shown}{more}"
        if args.process_index == 0:
            self.alerts.send(step, "not_finite", float("nan"), None, text, documents=documents)
            self.progress.write(state, "stopped")
        exit_all_ranks(args, f"{self.stage}: step {step}: {text}")


def exit_all_ranks(args, line: str, kind: type[UserError] = UserError) -> None:
    """Exit non-zero on all ranks, with one line from the first."""
    if args.process_index == 0:
        raise kind(line)
    raise SystemExit(1)


class RecomputedLayers(TrainerCallback):
    """Recomputes the first layers that gradients reach alone, where the machine file says how many: the trainer has it
    switched on for all when training begins."""

    def __init__(self, machine: Machine):
        self.count = None
        if type(machine.gradient_checkpointing) is int:
            self.count = machine.gradient_checkpointing

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        if self.count is None:
            return
        layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
        first = first_layer_with_gradients(model, layers)
        for layer in [*layers[:first], *layers[first + self.count :]]:
            layer.gradient_checkpointing = False


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
    if first_rank:
        tensorboard = SummaryWriter(str(work / "tensorboard"), purge_step=first_step or None)
    else:
        tensorboard = None
    callbacks: list[TrainerCallback] = [
        # checks that end a stage which would train something else than configured
        ShardingCheck(trainer, machine),
        RecomputedLayers(machine),
        FreeMemory(first_step, machine),
        *([optimizer_check] if optimizer_check else []),
        # figures that are added to the logs, then all that writes the logs
        Throughput(tokens_per_step, settings.sequence_length, bf16=settings.precision == "bf16"),
        AlertThresholds(alerts, metrics),
        MetricLog(metrics, name, tokens_per_step),
        progress,
        *([wandb_callback(trainer, monitoring.wandb, name)] if monitoring.wandb and first_rank else []),
        *([TensorBoardCallback(tensorboard)] if first_rank else []),
        # checkpoints, and what ends training before the last step
        Snapshots(trainer, work, stage.curve_steps),
        CompleteCheckpoints(work, stage.keep_checkpoints, current_layout(machine), owner),
        Interruption(trainer, name, trainer.train_dataset.shards, alerts, progress, owner),
        StallAlert(alerts),
        EarlyStoppingCallback(settings),  # the last: it ends a resumed run that has no step left
    ]
    trainer.remove_callback(PrinterCallback)
    for callback in callbacks:
        trainer.add_callback(callback)


def wandb_callback(trainer: StageTrainer, project: str, stage: str) -> WandbCallback:
    """transformers' callback for Weights & Biases, which continues the same run when a stage is resumed."""
    if importlib.util.find_spec("wandb") is None:
        raise UserError("monitoring: wandb is not installed: `uv pip install wandb`, or leave `wandb` out")
    work = Path(trainer.args.output_dir)  # its name is a hash of all that determines the weights
    trainer.args.run_name = stage
    os.environ.update(WANDB_PROJECT=project, WANDB_DIR=str(work), WANDB_RUN_ID=work.name, WANDB_RESUME="allow")
    os.environ.setdefault("WANDB_MODE", "offline")
    return WandbCallback()
