"""Latency of a model on its target hardware: seconds to the first token and to a whole answer, tokens per second.

    python -m scripts.evaluation.latency --model results/training/base --out results/evaluation/latency/base \\
        --seed 42 --settings '{"device": "cpu", "prompt_tokens": 512, "new_tokens": 512, "runs": 10}'

Timed is transformers' generate with its default cache, greedy, from prompts of random token ids already on the device
to exactly `new_tokens` tokens, one prompt at a time; tokenization is not included. Two runs before the timed ones warm
the device up. On other hardware than `device` nothing is timed, and scores.json says why.
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
WARM_UP = 2  # runs before the timed ones
Clock = Callable[[], float]  # seconds since some fixed moment


def synchronized(clock: Clock, device: torch.device) -> Clock:
    """`clock`, read only after the device has finished all queued work."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return clock()

    return now


class FirstToken(StoppingCriteria):
    """Stops nothing; records in `time` when the first token was there."""

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


def prompt(tokens: int, vocabulary: int, seed: int) -> torch.Tensor:
    """Random ids [1, tokens]."""
    generator = np.random.default_rng(content_seed("latency", str(seed)))
    return torch.from_numpy(generator.integers(0, vocabulary, (1, tokens)))


@torch.inference_mode()
def timed(model: PreTrainedModel, ids: torch.Tensor, tokens: int, now: Clock) -> tuple[float, float]:
    """Seconds until the first of `tokens` new tokens is there, and until all are."""
    first, start = FirstToken(now), now()
    model.generate(  # without an eos_token_id: nothing ends it early
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        generation_config=GenerationConfig(do_sample=False, max_new_tokens=tokens, use_cache=True),
        stopping_criteria=[first],
    )
    end = now()
    return first.time - start, end - start


def time_runs(model: PreTrainedModel, settings: Latency, seed: int, clock: Clock = time.perf_counter) -> list[dict]:
    """The timed runs.

    Raises:
        UserError: prompt and answer are longer than the model's positions, or do not fit into memory.
    """
    limit, length = model.config.max_position_embeddings, settings.prompt_tokens + settings.new_tokens
    if length > limit:
        raise UserError(
            f"evaluation.latency: prompt_tokens and new_tokens are {length}, more than the model's {limit} positions"
        )
    now = synchronized(clock, model.device)
    model.generation_config = GenerationConfig()  # the folder's own defaults would end it early, or sample
    ids = prompt(settings.prompt_tokens, model.config.vocab_size, seed).to(model.device)
    runs = []
    try:
        for _ in range(WARM_UP):
            timed(model, ids, settings.new_tokens, now)
        for _ in range(settings.runs):
            first, seconds = timed(model, ids, settings.new_tokens, now)
            runs.append({"first_token_seconds": first, "seconds": seconds})
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"{model.device}: no memory for a prompt of {settings.prompt_tokens} tokens and its answer"
        ) from error
    rate = figures(runs, settings)["tokens_per_second"]["value"]
    logging.info(f"latency: {rate:.1f} tokens/s")
    return runs


def latency(folder: Path, settings: Latency, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst`, the runs, and `scores.json`, and return the latter.

    Raises:
        UserError: the model's files do not match their manifest, or see `time_runs`.
    """
    load_before = machine_load()
    reason, runs, measured = off_target(device_name(), settings.device), [], {"figures": None}
    if reason:
        logging.info(f"latency: not applicable: {reason}")
    else:
        model = load(folder).model
        runs = time_runs(model, settings, seed)
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
