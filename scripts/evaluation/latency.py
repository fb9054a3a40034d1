"""Latency of a model on its target hardware: seconds to the first token and to a whole answer, tokens per second.

    python -m scripts.evaluation.latency --model results/training/base --out results/evaluation/latency/base \\
        --seed 42 --settings '{"device": "cpu", "prompt_tokens": 512, "new_tokens": 512, "runs": 10, "batches": [1, 2]}'

Timed is transformers' generate with its default cache, greedy, from prompts of random token ids already on the device
to exactly `new_tokens` tokens per row; tokenization is not included. Each batch size is warmed up first. On other
hardware than `device` nothing is timed, and scores.json says why.
"""

import logging
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pynvml
import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import write_json, write_jsonl
from scripts.evaluation.generation.model import arguments, device_name, load, model_and_environment
from scripts.evaluation.generation.transformers_engine import ENGINE
from scripts.evaluation.results.intervals import content_seed
from scripts.evaluation.results.latency_figures import figures
from scripts.experiment.settings.evaluation import Latency
from scripts.experiment.settings.record import to_dict

GIB = 2**30
Clock = Callable[[], float]  # seconds since some fixed moment


def synchronized(clock: Clock, device: torch.device) -> Clock:
    """`clock`, read only after the device has finished all queued work."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return clock()

    return now


class FirstToken(StoppingCriteria):
    """Stops nothing; records in `time` when all rows had their first token."""

    def __init__(self, now: Clock):
        self.now, self.time = now, None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_) -> torch.Tensor:
        if self.time is None:
            self.time = self.now()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def off_target(device: str, target: str) -> str | None:
    """Why `device` is not the target hardware (`gpu`, `cpu` or words of a GPU's name); None if it is."""
    kinds = {"gpu": device != "cpu", "cpu": device == "cpu"}
    on_target = kinds.get(target.lower(), bool(re.search(rf"\b{re.escape(target)}\b", device, re.IGNORECASE)))
    return None if on_target else f"models run on {device} here, the target is {target}"


def machine_load() -> dict[str, float | None]:
    """The load of this machine before the model is loaded.

    Returns:
        `load_per_core`, the load average of the last minute per core; with a GPU also `gpu_utilisation` (%) and
        `gpu_memory_gib`, in use; None if the card does not report it.
    """
    load = {"load_per_core": os.getloadavg()[0] / os.cpu_count()}
    if torch.cuda.is_available():
        for name, read, unit in (
            ("gpu_utilisation", torch.cuda.utilization, 1),
            ("gpu_memory_gib", torch.cuda.device_memory_used, GIB),
        ):
            try:
                load[name] = read(0) / unit
            except pynvml.NVMLError:  # e.g. a MIG slice
                load[name] = None
    return load


def prompts(rows: int, prompt_tokens: int, vocabulary: int, seed: int) -> torch.Tensor:
    """Random ids [rows, prompt_tokens]; a batch takes the first rows."""
    generator = np.random.default_rng(content_seed("latency", str(seed)))
    return torch.from_numpy(generator.integers(0, vocabulary, (rows, prompt_tokens)))


@torch.inference_mode()
def timed(model: PreTrainedModel, ids: torch.Tensor, tokens: int, now: Clock) -> tuple[float, float]:
    """Seconds until each row has its first token, and until it has all of its `tokens`."""
    first, start = FirstToken(now), now()
    model.generate(  # without an eos_token_id: nothing ends a row early
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        generation_config=GenerationConfig(do_sample=False, max_new_tokens=tokens, use_cache=True),
        stopping_criteria=[first],
    )
    end = now()
    return first.time - start, end - start


def time_batch(model: PreTrainedModel, ids: torch.Tensor, settings: Latency, now: Clock) -> list[dict] | None:
    """The timed runs of one batch; None if it does not fit into memory."""
    try:
        for _ in range(settings.warmup):
            timed(model, ids, settings.new_tokens, now)
        runs = []
        for number in range(1, settings.runs + 1):
            first, seconds = timed(model, ids, settings.new_tokens, now)
            runs.append({"batch": len(ids), "run": number, "first_token_seconds": first, "seconds": seconds})
        return runs
    except torch.OutOfMemoryError:
        return None


def time_batches(model: PreTrainedModel, settings: Latency, seed: int, clock: Clock = time.perf_counter) -> list[dict]:
    """The timed runs of all batches, up to the first that does not fit into memory.

    Raises:
        UserError: prompt and answer are longer than the model's positions, or not even one row fits into memory.
    """
    limit, length = model.config.max_position_embeddings, settings.prompt_tokens + settings.new_tokens
    if length > limit:
        raise UserError(
            f"evaluation.latency: prompt_tokens and new_tokens are {length}, more than the model's {limit} positions"
        )

    now = synchronized(clock, model.device)
    model.generation_config = GenerationConfig()  # the folder's own defaults would end it early, or sample
    ids = prompts(settings.batches[-1], settings.prompt_tokens, model.config.vocab_size, seed).to(model.device)
    runs = []
    for batch in settings.batches:
        of_batch = time_batch(model, ids[:batch], settings, now)
        if of_batch is None:
            logging.info(f"latency: no memory for a batch of {batch}")
            break
        runs += of_batch
        rate = figures(runs, settings)["throughput"][-1]["tokens_per_second"]
        logging.info(f"latency: batch {batch}: {rate:.1f} tokens/s")
    if not runs:
        raise UserError(f"{model.device}: no memory for one prompt of {settings.prompt_tokens} tokens and its answer")
    return runs


def latency(folder: Path, settings: Latency, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst`, the runs, and `scores.json`, and return the latter.

    Raises:
        UserError: the model's files do not match their manifest, or see `time_batches`.
    """
    load_before = machine_load()
    reason, runs, measured = off_target(device_name(), settings.device), [], {"figures": None}
    if reason:
        logging.info(f"latency: not applicable: {reason}")
    else:
        model = load(folder).model
        runs = time_batches(model, settings, seed)
        conditions = {
            "dtype": str(model.dtype).removeprefix("torch."),
            "attention": model.config._attn_implementation,
            "threads": torch.get_num_threads(),
            "load": load_before,
        }
        measured = {"figures": figures(runs, settings), "conditions": conditions}
    facts = {"engine": ENGINE, "settings": to_dict(settings) | {"seed": seed}, "not_applicable": reason}
    result = {**model_and_environment(folder), **facts, **measured}
    write_jsonl(out / "items.jsonl.zst", runs)
    write_json(out / "scores.json", result)
    return result


def main() -> None:
    args = arguments(__doc__, Latency, vllm=False).parse_args()
    latency(args.model, args.settings, args.seed, args.out)


if __name__ == "__main__":
    run(main)
