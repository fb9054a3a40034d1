"""Latency of a model on its target hardware: seconds to the first token and to a whole answer, tokens per second.

    python -m scripts.evaluation.latency --model results/training/base --out results/evaluation/latency/base \\
        --seed 42 --settings '{"device": "cpu", "prompt_tokens": 512, "new_tokens": 512}'

Timed is transformers' generate with its default cache, greedy, from prompts of random token ids already on the device
to exactly `new_tokens` tokens, one prompt at a time; tokenization is not included. Two runs before the timed ones warm
the device up. On other hardware than `device` nothing is timed, and scores.json says why.
"""

import logging
import re
import time
from pathlib import Path

import numpy as np
import torch
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteria

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.common.files import write_json, write_jsonl
from scripts.evaluation.generation.model import arguments, device_name, load, model_and_environment
from scripts.evaluation.generation.transformers_engine import ENGINE
from scripts.evaluation.results.intervals import content_seed
from scripts.evaluation.results.latency_figures import RUNS, figures
from scripts.experiment.settings.evaluation import Latency
from scripts.experiment.settings.record import to_dict

WARM_UP = 2  # runs before the timed ones


def now(device: torch.device) -> float:
    """Seconds, read only after the device has finished all queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class FirstToken(StoppingCriteria):
    """Stops nothing; records in `time` when the first token was there."""

    time: float | None = None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_) -> torch.Tensor:
        if self.time is None:
            self.time = now(input_ids.device)
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def off_target(device: str, target: str) -> str | None:
    """Why `device` is not the target hardware (`gpu`, `cpu` or words of a GPU's name); None if it is."""
    kinds = {"gpu": device != "cpu", "cpu": device == "cpu"}
    on_target = kinds.get(target.lower(), bool(re.search(rf"\b{re.escape(target)}\b", device, re.IGNORECASE)))
    return None if on_target else f"models run on {device} here, the target is {target}"


def prompt(tokens: int, vocabulary: int, seed: int) -> torch.Tensor:
    """Random ids [1, tokens]."""
    generator = np.random.default_rng(content_seed("latency", str(seed)))
    return torch.from_numpy(generator.integers(0, vocabulary, (1, tokens)))


@torch.inference_mode()
def timed(model: PreTrainedModel, ids: torch.Tensor, tokens: int) -> dict[str, float]:
    """Seconds until the first of `tokens` new tokens is there, and until all are."""
    first, start = FirstToken(), now(model.device)
    model.generate(  # without an eos_token_id: nothing ends it early
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        generation_config=GenerationConfig(do_sample=False, max_new_tokens=tokens, use_cache=True),
        stopping_criteria=[first],
    )
    return {"first_token_seconds": first.time - start, "seconds": now(model.device) - start}


def time_runs(model: PreTrainedModel, settings: Latency, seed: int) -> list[dict]:
    """The timed runs.

    Raises:
        UserError: prompt and answer are longer than the model's positions, or do not fit into memory.
    """
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
    rate = figures(runs, settings)["tokens_per_second"]["value"]
    logging.info(f"latency: {rate:.1f} tokens/s")
    return runs


def latency(folder: Path, settings: Latency, seed: int, out: Path) -> dict:
    """Write `items.jsonl.zst`, the runs, and `scores.json`, and return the latter.

    Raises:
        UserError: the model's files do not match their manifest, or see `time_runs`.
    """
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
        }
        measured = {"figures": figures(runs, settings), "conditions": conditions}
    facts = {"engine": ENGINE, "settings": to_dict(settings) | {"seed": seed}, "not_applicable": reason}
    result = {**model_and_environment(folder), **facts, **measured}
    write_jsonl(out / "items.jsonl.zst", runs)
    write_json(out / "scores.json", result)
    return result


def main() -> None:
    args = arguments(__doc__, Latency).parse_args()
    latency(args.model, args.settings, args.seed, args.out)


if __name__ == "__main__":
    run(main)
