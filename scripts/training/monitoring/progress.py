"""progress.json in a stage's work folder: steps done and time left, for another terminal to watch.

watch -n 5 cat results/work/train/sft/*/progress.json
"""

import datetime
import time
from pathlib import Path

from transformers import TrainerCallback

from scripts.common.files import write_json
from scripts.training.monitoring.alerts import Alerts

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
