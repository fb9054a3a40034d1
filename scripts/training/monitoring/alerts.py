"""Alerts of a running stage: to the log, to alerts.jsonl, and to a webhook. An alert never stops training.

Thresholds are in a monitoring file (scripts/experiment/settings/machine.py). Each kind alerts once when its
threshold is crossed, and again only after a logged step within it.
"""

import json
import logging
import os
import statistics
import threading
import time
import urllib.request
from collections import deque
from pathlib import Path

import orjson
from transformers import TrainerCallback

from scripts.experiment.settings.machine import Monitoring

MIN_STEPS = 5  # logged steps before a median is compared with
WINDOW = 50  # logged steps in a running median
MIN_STALL_SECONDS = 5.0  # shorter pauses are never an alert
STALL_CHECK_SECONDS = 0.5
TEMPERATURE = 87  # °C of the hottest GPU, above which it is an alert
LOSS_FACTOR = 2  # of the running median, above which a loss is an alert
STALL_FACTOR = 20  # times the median duration of a step, after which no end of a step is
WEBHOOK_SECONDS = 3  # that training waits for it at most


def post_to_webhook(address: str, message: dict, seconds: float) -> None:
    """POST `message` as JSON; give up after `seconds`, whatever the server does. A failure is a log line.

    The line does not contain the address, which may be a secret.
    """
    failure = [f"no answer within {seconds:g} s"]

    def send() -> None:
        try:
            request = urllib.request.Request(
                os.path.expandvars(address), json.dumps(message).encode(), {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=seconds):
                failure.clear()
        except Exception as error:  # training goes on in any case
            failure[0] = getattr(error, "reason", None) or type(error).__name__

    # in a thread, as urllib's timeout holds per read: a server that sends a byte now and then would block training
    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        logging.warning(f"alerts: the webhook failed: {failure[0]}")


class Alerts:
    """Sends the alerts of one stage. Only the first rank calls it.

    Args:
        path: alerts.jsonl; its lines are {"step", "stage", "kind", "value", "limit", "text", ...}.
        stage: name for the messages.

    Attributes:
        last: the newest alert's text, None before the first.
    """

    def __init__(self, path: Path, stage: str, monitoring: Monitoring):
        self.path, self.stage, self.monitoring = path, stage, monitoring
        self.last = None

    def send(self, step: int, kind: str, value: float, limit: float | None, text: str, **more) -> None:
        self.last = f"step {step}: {text}"
        record = {"step": step, "stage": self.stage, "kind": kind, "value": value, "limit": limit, "text": text, **more}
        logging.warning(f"ALERT {self.stage}: {self.last}")
        with self.path.open("ab") as file:
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
        if self.monitoring.webhook:
            # orjson makes NaN null; json would write `NaN`, which is not JSON
            message = orjson.loads(orjson.dumps(record))
            post_to_webhook(self.monitoring.webhook, message, WEBHOOK_SECONDS)


class AlertThresholds(TrainerCallback):
    """Compares each logged step with the thresholds, and its loss with the running median."""

    def __init__(self, alerts: Alerts, metrics: Path):
        self.alerts, self.limits, self.metrics = alerts, alerts.monitoring.alerts, metrics
        self.losses: deque[float] = deque(maxlen=WINDOW)
        self.crossed: set[str] = set()

    def on_train_begin(self, args, state, control, **kwargs):
        if state.is_world_process_zero:
            self.alerts.path.touch()
            if self.metrics.is_file():  # a resumed stage keeps its losses
                lines = map(orjson.loads, self.metrics.read_bytes().splitlines())
                self.losses.extend(line["loss"] for line in lines if line.get("loss") is not None)

    def on_log(self, args, state, control, logs, **kwargs):
        if state.is_world_process_zero and "loss" in logs:
            self.compare(state.global_step, logs)

    def compare(self, step: int, logs: dict) -> None:
        """Alert for each figure in `logs`, those of one logged step, that crosses its threshold."""
        memory = logs.get("memory_reserved_gib", logs.get("memory_resident_gib"))
        median = None
        if len(self.losses) >= MIN_STEPS:
            median = statistics.median(self.losses)
        rules = (
            ("grad_norm", logs.get("grad_norm"), self.limits.grad_norm, "gradient norm {:.3g} exceeds {:g}"),
            ("memory", memory, self.limits.memory_gib, "memory {:.1f} GiB exceeds {:g}"),
            ("temperature", logs.get("gpu_temperature_c"), TEMPERATURE, "GPU at {:.0f} °C exceeds {:g}"),
            ("loss", logs["loss"], median and LOSS_FACTOR * median, "loss {:.3f} exceeds {:.3f}, twice the median"),
        )
        for kind, value, limit, text in rules:
            if value is not None and limit is not None:
                self.alert_once(step, kind, value, limit, value > limit, text.format(value, limit))
        self.losses.append(logs["loss"])

    def alert_once(self, step: int, kind: str, value: float, limit: float, bad: bool, text: str) -> None:
        """Alert if `bad`, unless the step logged before was bad in the same way."""
        if bad and kind not in self.crossed:
            self.alerts.send(step, kind, value, limit, text)
        (self.crossed.add if bad else self.crossed.discard)(kind)


class StallAlert(TrainerCallback):
    """Alerts once when no step ends for many times as long as a step takes: a rank or its storage hangs.

    A hung rank writes nothing itself, and the others wait for it within a collective operation until
    `collective_timeout` of the machine file. So a thread of the first rank watches the time. Evaluations and saves do
    not count. Add it after the callbacks that communicate.
    """

    def __init__(self, alerts: Alerts):
        self.alerts = alerts
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
        while not self.finished.wait(STALL_CHECK_SECONDS):
            since, durations = self.since, list(self.durations)
            if since is None or self.alerted or len(durations) < MIN_STEPS:
                continue
            seconds, median = time.monotonic() - since, statistics.median(durations)
            limit = max(MIN_STALL_SECONDS, STALL_FACTOR * median)
            if seconds > limit:
                self.alerted = True
                text = f"no step for {seconds:.0f} s, {STALL_FACTOR:g} times the median of {median:.2g} s is exceeded"
                self.alerts.send(self.step, "stall", seconds, limit, text)
