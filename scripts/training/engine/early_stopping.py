"""When a stage ends early, and which of its checkpoints is the best: both read from the logged validation losses.

The Trainer keeps its log in every checkpoint, so a resumed run decides as a straight one without a state of our own.
"""

from pathlib import Path

from transformers import Trainer, TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME


class Finished(Exception):
    """Raised at the start of training where the resumed checkpoint is the last: there is no step left to do."""


def validation_losses(state: TrainerState) -> list[float]:
    return [entry["eval_loss"] for entry in state.log_history if "eval_loss" in entry]


def without_gain(losses: list[float], min_delta: float) -> int:
    """Evaluations since the last one that was better than the best before it by more than `min_delta`."""
    best, since = float("inf"), 0
    for loss in losses:
        since += 1
        if loss < best - min_delta:
            best, since = loss, 0
    return since


def best_checkpoint(checkpoint: Path) -> Path | None:
    """The best checkpoint as the one given knows it, or None."""
    step = TrainerState.load_from_json(str(checkpoint / TRAINER_STATE_NAME)).best_global_step
    return checkpoint.with_name(f"checkpoint-{step}") if step is not None else None


class Stopping(TrainerCallback):
    """Stops after `patience` evaluations without gain, saves each new best, and ends a resumed run that was done."""

    def __init__(self, stage: dict):
        self.rule, self.keep_best = stage.get("early_stopping"), stage["keep_best"]

    def spent(self, state: TrainerState) -> bool:
        rule = self.rule
        return rule is not None and without_gain(validation_losses(state), rule["min_delta"]) >= rule["patience"]

    def on_train_begin(self, args, state, control, **kwargs):
        if state.global_step and (state.global_step >= state.max_steps or self.spent(state)):
            raise Finished

    def on_step_end(self, args, state, control, **kwargs):
        if self.keep_best and state.global_step >= state.max_steps:
            control.should_evaluate = True  # the last weights may be the best

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        if self.keep_best and (state.best_metric is None or metrics["eval_loss"] < state.best_metric):
            control.should_save = True
        if self.spent(state):
            control.should_training_stop = control.should_save = True


def load_best(trainer: Trainer) -> None:
    """Put the weights of the best checkpoint into the trained model. On all ranks."""
    assert trainer.state.best_model_checkpoint is not None, "no best checkpoint is known"
    trainer._load_best_model()


def outcome(state: TrainerState, stage: dict) -> dict:
    """What the summary says of the end: mean of the logged losses, whether it stopped early, the best checkpoint."""
    losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    facts = {"train_loss": sum(losses) / len(losses) if losses else None}
    if "early_stopping" in stage:
        facts["stopped_early"] = state.global_step < state.max_steps
    if stage["keep_best"]:
        facts |= {"best_step": state.best_global_step, "best_eval_loss": state.best_metric}
    return facts
