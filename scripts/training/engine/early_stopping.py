"""Early stopping and the best checkpoint, both decided by the logged validation losses.

The Trainer keeps its log in every checkpoint, so a resumed run decides as an uninterrupted one.
"""

from pathlib import Path

from transformers import TrainerCallback, TrainerState
from transformers.trainer import TRAINER_STATE_NAME

from scripts.experiment.settings.training import Stage


class AlreadyFinished(Exception):
    """Raised at the start of training if the resumed checkpoint is the last one: there is no step left to do."""


def validation_losses(state: TrainerState) -> list[float]:
    return [entry["eval_loss"] for entry in state.log_history if "eval_loss" in entry]


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


def last_validation_loss(state: TrainerState) -> float | None:
    """The validation loss of the weights after the last step, if they were evaluated."""
    last = next((entry for entry in reversed(state.log_history) if "eval_loss" in entry), None)
    if last and last["step"] == state.global_step:
        return last["eval_loss"]
    return None


def stopping_summary(state: TrainerState, settings: Stage) -> dict:
    """Facts for summary.json: mean of the logged losses, whether the stage stopped early, the best checkpoint."""
    losses = [entry["loss"] for entry in state.log_history if "loss" in entry]
    facts = {"train_loss": sum(losses) / len(losses) if losses else None}
    if settings.early_stopping:
        facts["stopped_early"] = state.global_step < state.max_steps
    if settings.keep_best:
        facts |= {"best_step": state.best_global_step, "best_eval_loss": state.best_metric}
    return facts
