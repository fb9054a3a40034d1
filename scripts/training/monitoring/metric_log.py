"""The metric log of a stage: one JSON line per logged step, and a progress line with rate and ETA."""

import logging
import statistics
import time
from pathlib import Path

import orjson
from transformers import TrainerCallback

from scripts.common.files import atomic


def truncate_after(path: Path, step: int) -> int:
    """Remove from a metric log the lines after the checkpoint that is resumed, and a half-written line.

    Returns:
        the last step that was logged, 0 without any.

    Lines that hold no logged step, as a failing disk may leave them, are removed too, and counted in a warning: a stage
    need not fail for its curve.
    """
    if not path.is_file():
        if step:
            logging.warning(f"{path}: not there; what it said of the steps until {step} is lost")
        path.touch()
        return 0
    kept, damaged, last = [], 0, 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            logged = orjson.loads(line)["step"]
            last = max(last, logged)
            if line.endswith(b"\n") and logged <= step:
                kept.append(line)
        except (orjson.JSONDecodeError, KeyError, TypeError):
            damaged += line.endswith(b"\n")
    if damaged:
        logging.warning(f"{path}: {damaged} damaged lines are left out; the curves have a gap there")
    with atomic(path) as temporary:
        temporary.write_bytes(b"".join(kept))
    return last


def summarize_metrics(path: Path) -> dict[str, float | None]:
    """Facts for summary.json from a metric log: median gradient norm before clipping, peak GPU memory (GiB, reserved).

    A figure that was never logged is None, as GPU memory on a CPU; a norm that is not a number is left out.
    """
    steps = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    norms = [step["grad_norm"] for step in steps if step.get("grad_norm") is not None]
    memory = [step["memory_reserved_gib"] for step in steps if "memory_reserved_gib" in step]
    return {"gradient_norm": statistics.median(norms) if norms else None, "memory_gib": max(memory, default=None)}


class MetricLog(TrainerCallback):
    """Appends what the Trainer logs, with the figures that other callbacks add, to `path`.

    Args:
        path: metrics.jsonl; another terminal can watch it.
        stage: name for the progress line.
        tokens_per_step: tokens in one optimizer step, over all ranks.
    """

    def __init__(self, path: Path, stage: str, tokens_per_step: int):
        self.path, self.stage, self.tokens_per_step = path, stage, tokens_per_step

    def on_train_begin(self, args, state, control, **kwargs):
        self.began, self.begin_step = time.monotonic(), state.global_step

    def is_logged(self, record: dict) -> bool:
        """Whether the newest line is this evaluation: a stage that is killed after its last step evaluates again."""
        lines = []
        if self.path.is_file():
            lines = self.path.read_bytes().splitlines()
        last = orjson.loads(lines[-1]) if lines else {}
        return (last.get("step"), last.get("eval_loss")) == (record["step"], record["eval_loss"])

    def on_log(self, args, state, control, logs, **kwargs):
        if not state.is_world_process_zero or "train_runtime" in logs:
            return
        record = {"step": state.global_step, "tokens": state.global_step * self.tokens_per_step, **logs}
        if "loss" in logs:
            record.setdefault("mfu", None)
            per_step = (time.monotonic() - self.began) / (state.global_step - self.begin_step)
            eta = per_step * (state.max_steps - state.global_step)
            logging.info(
                f"{self.stage}: step {state.global_step}/{state.max_steps}, loss {logs['loss']:.3f}, "
                f"{logs['tokens_per_second']:,.0f} tokens/s, ETA {eta:.0f} s"
            )
        elif "eval_loss" in logs:
            logging.info(f"{self.stage}: step {state.global_step}, validation loss {logs['eval_loss']:.3f}")
            if self.is_logged(record):
                return
        with self.path.open("ab") as file:
            file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
