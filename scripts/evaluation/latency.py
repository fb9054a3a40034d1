"""How fast a model answers on the hardware that it is meant for: seconds to the first token and of a whole answer.

    python -m scripts.evaluation.latency --model results/training/base --out results/evaluation/latency/base --settings
        '{"device": "cpu", "prompt_tokens": 512, "new_tokens": 512, "warmup": 2, "runs": 10, "batches": [1, 2],
          "seed": 42}'

Timed is transformers' generate with its default cache, greedy, from prompts of random tokens that lie on the device to
exactly `new_tokens` tokens of each row; tokenizing is not in it. Every batch has runs to warm up first. On hardware
other than `device` nothing is timed, and scores.json says why.
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

from scripts.common.cli import UserError, run
from scripts.common.files import write_json, write_jsonl
from scripts.evaluation.generation.model import command, device, load, origin
from scripts.evaluation.generation.transformers_engine import ENGINE
from scripts.evaluation.results.intervals import content_seed
from scripts.evaluation.results.latency_figures import figures

GIB = 2**30
Clock = Callable[[], float]  # seconds from some moment on


def synchronized(clock: Clock, device: torch.device) -> Clock:
    """`clock`, read when the device has done all that it was given."""

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return clock()

    return now


class FirstToken(StoppingCriteria):
    """Ends nothing, and notes `at` what time the first token of all rows was there."""

    def __init__(self, now: Clock):
        self.now, self.at = now, None

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_) -> torch.Tensor:
        if self.at is None:
            self.at = self.now()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


def off_target(found: str, target: str) -> str | None:
    """Why the device `found` is not the `target` (`gpu`, `cpu` or words of a GPU's name); None where it is."""
    kinds = {"gpu": found != "cpu", "cpu": found == "cpu"}
    fits = kinds.get(target.lower(), bool(re.search(rf"\b{re.escape(target)}\b", found, re.IGNORECASE)))
    return None if fits else f"models run on {found} here, the target is {target}"


def busy() -> dict[str, float | None]:
    """What else this machine does, asked before a model is loaded.

    Returns:
        `load_per_core`, the load average of the last minute over cores; where there is a GPU also `gpu_utilisation` (%)
        and `gpu_memory_gib`, in use; None where the card does not tell.
    """
    found = {"load_per_core": os.getloadavg()[0] / os.cpu_count()}
    if torch.cuda.is_available():
        for name, ask, unit in (
            ("gpu_utilisation", torch.cuda.utilization, 1),
            ("gpu_memory_gib", torch.cuda.device_memory_used, GIB),
        ):
            try:
                found[name] = ask(0) / unit
            except pynvml.NVMLError:  # as a MIG slice
                found[name] = None
    return found


def prompts(rows: int, wanted: dict, vocabulary: int) -> torch.Tensor:
    """Random ids [rows, prompt_tokens]; a batch takes the first ones."""
    generator = np.random.default_rng(content_seed("latency", str(wanted["seed"])))
    return torch.from_numpy(generator.integers(0, vocabulary, (rows, wanted["prompt_tokens"])))


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
    return first.at - start, end - start


def runs(model: PreTrainedModel, ids: torch.Tensor, wanted: dict, now: Clock) -> list[dict] | None:
    """The runs of one batch; None where memory did not suffice."""
    try:
        for _ in range(wanted["warmup"]):
            timed(model, ids, wanted["new_tokens"], now)
        found = []
        for number in range(1, wanted["runs"] + 1):
            first, seconds = timed(model, ids, wanted["new_tokens"], now)
            found.append({"batch": len(ids), "run": number, "first_token_seconds": first, "seconds": seconds})
        return found
    except torch.OutOfMemoryError:
        return None


def grow(model: PreTrainedModel, wanted: dict, clock: Clock = time.perf_counter) -> list[dict]:
    """The runs of all batches, as far as memory lets them grow.

    Raises:
        UserError: prompt and answer are longer than the model's positions, or not even one row fits into memory.
    """
    limit, length = model.config.max_position_embeddings, wanted["prompt_tokens"] + wanted["new_tokens"]
    if length > limit:
        raise UserError(
            f"evaluation.latency: prompt_tokens and new_tokens are {length}, more than the model's {limit} positions"
        )

    now = synchronized(clock, model.device)
    model.generation_config = GenerationConfig()  # the folder's own defaults would end it, or sample
    ids = prompts(wanted["batches"][-1], wanted, model.config.vocab_size).to(model.device)
    found = []
    for batch in wanted["batches"]:
        more = runs(model, ids[:batch], wanted, now)
        if more is None:
            logging.info(f"latency: no memory for a batch of {batch}")
            break
        found += more
        logging.info(
            f"latency: batch {batch}: {figures(found, wanted)['throughput'][-1]['tokens_per_second']:.1f} tokens/s"
        )
    if not found:
        raise UserError(f"{model.device}: no memory for one prompt of {wanted['prompt_tokens']} tokens and its answer")
    return found


def latency(folder: Path, wanted: dict, out: Path) -> dict:
    """Write `items.jsonl.zst`, the runs, and `scores.json`, and return the latter.

    Raises:
        UserError: the model's files are not what their manifest says, or see `grow`.
    """
    load_before = busy()
    reason, found, told = off_target(device(), wanted["device"]), [], {"figures": None}
    if reason:
        logging.info(f"latency: not applicable: {reason}")
    else:
        model = load(folder).model
        found = grow(model, wanted)
        conditions = {
            "dtype": str(model.dtype).removeprefix("torch."),
            "attention": model.config._attn_implementation,
            "threads": torch.get_num_threads(),
            "load": load_before,
        }
        told = {"figures": figures(found, wanted), "conditions": conditions}
    result = {**origin(folder), "engine": ENGINE, "settings": wanted, "not_applicable": reason, **told}
    write_jsonl(out / "items.jsonl.zst", found)
    write_json(out / "scores.json", result)
    return result


def main() -> None:
    given = command(__doc__, writes=False).parse_args()
    latency(given.model, given.settings, given.out)


if __name__ == "__main__":
    run(main)
