"""An alert when a stage makes no step for many times as long as a step takes: a rank or its storage hangs.

A hung rank writes nothing itself, and the others wait for it within a collective operation until `collective_timeout`
of the machine file. So a thread of the first rank watches the time.
"""

import statistics
import threading
import time
from collections import deque

from transformers import TrainerCallback

from scripts.training.monitoring.alerts import MIN_STEPS, WINDOW, Alerts

MIN_SECONDS = 5.0  # shorter pauses are never an alert
CHECK_INTERVAL = 0.5  # seconds


class StallAlert(TrainerCallback):
    """Alerts once for each pause; evaluations and saves do not count. Add it after the callbacks that communicate."""

    def __init__(self, alerts: Alerts):
        self.alerts, self.factor = alerts, alerts.monitoring.alerts.stall_factor
        self.durations: deque[float] = deque(maxlen=WINDOW)  # seconds of the newest steps
        self.finished = threading.Event()
        self.step, self.since, self.alerted = 0, None, False  # since: begin of the running step; None while it saves

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            threading.Thread(target=self.watch, daemon=True).start()

    def on_step_begin(self, args, state, control, **kwargs):
        if self.since is None:
            self.since = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        now = time.monotonic()
        if self.since is not None:
            self.durations.append(now - self.since)
        self.step, self.alerted = state.global_step, False
        self.since = None if control.should_evaluate or control.should_save else now

    def on_train_end(self, args, state, control, **kwargs):
        self.finished.set()

    def watch(self) -> None:
        while not self.finished.wait(CHECK_INTERVAL):
            since, durations = self.since, list(self.durations)
            if since is None or self.alerted or len(durations) < MIN_STEPS:
                continue
            seconds, median = time.monotonic() - since, statistics.median(durations)
            limit = max(MIN_SECONDS, self.factor * median)
            if seconds > limit:
                self.alerted = True
                text = f"no step for {seconds:.0f} s, {self.factor:g} times the median of {median:.2g} s is exceeded"
                self.alerts.send(self.step, "stall", seconds, limit, text)
