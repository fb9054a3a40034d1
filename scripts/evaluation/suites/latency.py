"""Latency of a model on its target hardware: seconds to the first token and to a whole answer, tokens per second.

    python -m scripts.evaluation.suites.latency --model results/training/base --out results/evaluation/latency/base \\
        --seed 42 --settings '{"device": "cpu", "prompt_tokens": 512, "new_tokens": 512}'

Timed is transformers' generate with its default cache, greedy, from prompts of random token ids already on the device
to exactly `new_tokens` tokens, one prompt at a time; tokenization is not included. Two runs before the timed ones warm
the device up. On other hardware than `device` nothing is timed, and scores.json says why.
"""

import logging
import re
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import read_json, read_jsonl, write_json, write_jsonl
from scripts.common.options import command
from scripts.evaluation.generation.model import device_name, load, model_and_environment
from scripts.evaluation.results.intervals import content_seed, median_interval
from scripts.evaluation.suites import About
from scripts.experiment.settings.record import Record, Text, to_dict

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

PLACE = 9
ABOUT = About(
    "Seconds to the first token and of a whole answer, tokens per second, on the hardware that the model is for.",
    share=False,
    whole_node=True,
)
WARM_UP = 2  # runs before the timed ones
RUNS = 10  # timed runs; an interval at 95% needs at least 6
# metric → its value for a run that generated `tokens` tokens
METRICS = {
    "first_token_seconds": lambda run, tokens: run["first_token_seconds"],
    "answer_seconds": lambda run, tokens: run["seconds"],
    "tokens_per_second": lambda run, tokens: (tokens - 1) / (run["seconds"] - run["first_token_seconds"]),
}


class Settings(Record):
    """Off unless given (`latency: {}` for the defaults). Measures the time to the first token, the time of a whole
    answer and tokens per second, on the hardware that the model is meant for."""

    device: Text = Field(
        "gpu",
        description="Target hardware: `gpu` (any GPU), `cpu`, or a part of a GPU's name, such as `A40`. On other"
        " hardware nothing is measured, and gates on latency are reported as not measured.",
    )
    prompt_tokens: int = Field(512, ge=1, description="Number of tokens of each prompt.")
    new_tokens: int = Field(512, ge=2, description="Exact number of generated tokens.")


def datasets(settings: Settings) -> list[str]:
    return []


def small(settings: Settings, items: int) -> dict:
    return {"prompt_tokens": 32, "new_tokens": 4}


def now(device: "torch.device") -> float:
    """Seconds, read only after the device has finished all queued work."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class FirstToken:
    """A criterion of transformers that stops nothing; records in `time` when the first token was there."""

    time: float | None = None

    def __call__(self, input_ids: "torch.Tensor", scores: "torch.Tensor", **_) -> "torch.Tensor":
        import torch

        if self.time is None:
            self.time = now(input_ids.device)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def off_target(device: str, target: str) -> str | None:
    """Why `device` is not the target hardware (`gpu`, `cpu` or words of a GPU's name); None if it is."""
    kinds = {"gpu": device != "cpu", "cpu": device == "cpu"}
    on_target = kinds.get(target.lower(), bool(re.search(rf"\b{re.escape(target)}\b", device, re.IGNORECASE)))
    if on_target:
        return None
    return f"models run on {device} here, the target is {target}"


def prompt(tokens: int, vocabulary: int, seed: int) -> "torch.Tensor":
    """Random ids [1, tokens]."""
    import torch

    generator = np.random.default_rng(content_seed("latency", str(seed)))
    return torch.from_numpy(generator.integers(0, vocabulary, (1, tokens)))


def timed(model: "PreTrainedModel", ids: "torch.Tensor", tokens: int) -> dict[str, float]:
    """Seconds until the first of `tokens` new tokens is there, and until all are."""
    import torch
    from transformers import GenerationConfig

    first, start = FirstToken(), now(model.device)
    model.generate(  # without an eos_token_id: nothing ends it early
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        generation_config=GenerationConfig(do_sample=False, max_new_tokens=tokens, use_cache=True),
        stopping_criteria=[first],
    )
    return {"first_token_seconds": first.time - start, "seconds": now(model.device) - start}


def time_runs(model: "PreTrainedModel", settings: Settings, seed: int) -> list[dict]:
    """The timed runs."""
    import torch
    from transformers import GenerationConfig

    limit, length = model.config.max_position_embeddings, settings.prompt_tokens + settings.new_tokens
    if length > limit:
        raise UserError(
            f"evaluation.latency: prompt_tokens and new_tokens are {length}, more than the model's {limit} positions"
        )
    model.generation_config = GenerationConfig()  # the folder's own defaults would end it early, or sample
    ids = prompt(settings.prompt_tokens, model.config.vocab_size, seed).to(model.device)
    try:
        runs = [timed(model, ids, settings.new_tokens) for _ in range(WARM_UP + RUNS)][WARM_UP:]
    except torch.OutOfMemoryError as error:
        raise UserError(
            f"{model.device}: no memory for a prompt of {settings.prompt_tokens} tokens and its answer"
        ) from error
    return runs


def metric_values(runs: list[dict], tokens: int) -> dict[str, list[float]]:
    """Each metric of each run."""
    found = {}
    for name, value in METRICS.items():
        found[name] = [value(run, tokens) for run in runs]
    return found


def figures(runs: list[dict], tokens: int) -> dict:
    """`{metric: {"value": median over the runs}}`."""
    return {name: {"value": median(values)} for name, values in metric_values(runs, tokens).items()}


def read_latency(folder: Path, tokens: int, confidence: float) -> dict:
    """A model's figures with the interval of each median, None of fewer than 6 runs; `{"not_applicable": reason}` where
    it was not timed. Raises UserError: a file of the model's `folder` cannot be read."""
    runs = list(read_jsonl(folder / "items.jsonl.zst"))
    if not runs:
        return {"not_applicable": read_json(folder / "scores.json")["not_applicable"]}
    found = figures(runs, tokens)
    for name, values in metric_values(runs, tokens).items():
        found[name]["interval"] = median_interval(values, confidence)
    return found


def latency(model: Path, settings: Settings, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst`, the runs, and `scores.json`, and return the latter. Raises UserError: the model's files
    do not match their manifest, or see `time_runs`."""
    import torch

    from scripts.evaluation.generation.transformers_engine import ENGINE

    reason, runs, measured = off_target(device_name(), settings.device), [], {"figures": None}
    if reason:
        logging.info(f"latency: not applicable: {reason}")
    else:
        loaded = load(model).model
        runs = time_runs(loaded, settings, seed)
        conditions = {
            "dtype": str(loaded.dtype).removeprefix("torch."),
            "attention": loaded.config._attn_implementation,
            "threads": torch.get_num_threads(),
        }
        measured = {"figures": figures(runs, settings.new_tokens), "conditions": conditions}
        logging.info(f"latency: {measured['figures']['tokens_per_second']['value']:.1f} tokens/s")
    facts = {"engine": ENGINE, "settings": to_dict(settings) | {"seed": seed}, "not_applicable": reason}
    result = {**model_and_environment(model), **facts, **measured}
    write_jsonl(out / "items.jsonl.zst", runs)
    write_json(out / "scores.json", result)
    return result


if __name__ == "__main__":
    run(command(latency))
