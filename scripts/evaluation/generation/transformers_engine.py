"""What a model writes after each prompt: transformers' batched generate, batch by batch, the longest prompts first.

    encoder = Encoder(folder)
    written = generate(model, encoder, ["def add(a, b):\\n"], settings)  # written[0][0]: the first sample for prompt 0

`settings` are `max_new_tokens`, `temperature` (0 is greedy), `top_p`, `repetition_penalty`, `beams`, `samples`, `seed`;
the model folder's own generation defaults never count. A prompt is a text or a chat, encoded as for training, so a
control token spelled out in it is text. Text is written on; a chat is answered by one more turn.

What is written does not depend on the batch. Sampling takes the token with the largest logit / temperature + Gumbel
noise, which draws from the softmax, with a stream of noise for each sample, seeded from its prompt and number.
In float32 it equals batch 1. In bfloat16 a batch of another shape rounds differently, and a near tie may fall the
other way.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import transformers
from transformers import GenerationConfig, LogitsProcessor, PreTrainedModel, StoppingCriteria, TopPLogitsWarper

from scripts.common.cli import UserError
from scripts.common.progress import Progress
from scripts.evaluation.results.intervals import content_seed
from scripts.tokens.packing.encoder import Encoder, shown

Prompt = str | list[dict]

ENGINE = {"name": "transformers", "version": transformers.__version__}

# Rows tried at first; halved as often as memory asks for it.
ROWS = 64
# Tokens between two looks at whether a text is finished.
LOOK = 16


class Gumbel(LogitsProcessor):
    """Turns the argmax over scores [rows, vocabulary] into a sample of each row's own stream of noise."""

    def __init__(self, seeds: list[int], temperature: float, top_p: float, device: torch.device):
        self.streams = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.temperature, self.nucleus = temperature, TopPLogitsWarper(top_p)

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = self.nucleus(input_ids, scores.float() / self.temperature)
        noise = torch.empty_like(scores)
        for row, stream in zip(noise, self.streams, strict=True):
            row.exponential_(generator=stream)
        return scores - noise.log()


class Finished(StoppingCriteria):
    """Ends the rows of which `finished(row, ids written)` holds: what comes later would be cut off anyway."""

    def __init__(self, finished: Callable[[int, list[int]], bool], width: int):
        self.finished, self.width = finished, width

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_) -> torch.Tensor:
        ends = torch.zeros(len(input_ids), dtype=torch.bool)
        if (input_ids.shape[1] - self.width) % LOOK == 0:
            written = input_ids[:, self.width :].tolist()
            ends[:] = torch.tensor([self.finished(row, ids) for row, ids in enumerate(written)])
        return ends.to(input_ids.device)


class Row(NamedTuple):
    """A text to be written: its prompt's number and ids, the ids that end it, the seed of its noise."""

    prompt: int
    ids: list[int]
    ends: list[int]
    seed: int


def encode(encoder: Encoder, prompt: Prompt) -> tuple[list[int], list[int]]:
    """(ids of the prompt, ids that end what is written)."""
    if isinstance(prompt, str):
        ids = encoder.encode([{"text": prompt}]).ids.tolist()
        return (ids[:-1] or [encoder.end]), [encoder.end]
    encoded = encoder.encode([{"messages": [*prompt, {"role": "assistant", "content": ""}]}])
    last = int(np.flatnonzero(encoded.targets)[-1])  # of an empty answer only its end is a target
    return encoded.ids[:last].tolist(), [encoder.end, int(encoded.ids[last])]


def decode(encoder: Encoder, ids: list[int], ends: list[int]) -> str:
    """The text up to the first of `ends`; control tokens and ids that stand for nothing are left out."""
    stop, sizes = next((place for place, token in enumerate(ids) if token in ends), len(ids)), encoder.bytes_of
    return encoder.engine.decode([token for token in ids[:stop] if token < len(sizes) and sizes[token]])


def rows_of(encoder: Encoder, prompts: list[Prompt], settings: dict, limit: int) -> list[Row]:
    """`samples` rows for each prompt, in the order of the prompts.

    Args:
        limit: the model's positions.

    Raises:
        UserError: a prompt with `max_new_tokens` is longer than that, or a chat is malformed or has no template.
    """
    samples, new, rows = settings["samples"], settings["max_new_tokens"], []
    for number, prompt in enumerate(prompts):
        ids, ends = encode(encoder, prompt)
        if len(ids) + new > limit:
            raise UserError(
                f"{shown(prompt)}: {len(ids)} tokens and max_new_tokens {new} exceed the model's {limit} positions"
            )
        content = json.dumps(prompt, sort_keys=True)
        seeds = [content_seed(str(settings["seed"]), content, str(sample)) % 2**63 for sample in range(samples)]
        rows += [Row(number, ids, ends, seed) for seed in seeds]
    return rows


class Writer:
    """One model with one set of settings; see the module."""

    def __init__(self, model: PreTrainedModel, encoder: Encoder, settings: dict, finished: Callable | None):
        self.model, self.encoder, self.settings, self.finished = model, encoder, settings, finished
        model.generation_config = GenerationConfig()

    @torch.inference_mode()
    def batch(self, rows: list[Row]) -> list[str]:
        """What is written for each row; all have the same ends."""
        settings, width, ends = self.settings, max(len(row.ids) for row in rows), rows[0].ends
        ids = torch.tensor([[self.encoder.end] * (width - len(row.ids)) + row.ids for row in rows])
        mask = torch.tensor([[0] * (width - len(row.ids)) + [1] * len(row.ids) for row in rows])
        device, processors, criteria = self.model.device, [], []
        if settings["temperature"]:
            seeds = [row.seed for row in rows]
            processors.append(Gumbel(seeds, settings["temperature"], settings["top_p"], device))
        if self.finished:

            def finished(row: int, written: list[int]) -> bool:
                return self.finished(rows[row].prompt, decode(self.encoder, written, ends))

            criteria.append(Finished(finished, width))
        config = GenerationConfig(
            do_sample=False,
            num_beams=settings["beams"],
            repetition_penalty=settings["repetition_penalty"],
            max_new_tokens=settings["max_new_tokens"],
            eos_token_id=ends,
            pad_token_id=self.encoder.end,
            use_cache=True,
        )
        written = self.model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            generation_config=config,
            logits_processor=processors,
            stopping_criteria=criteria,
        )
        return [decode(self.encoder, row, ends) for row in written[:, width:].tolist()]

    def attempt(self, rows: list[Row]) -> list[str] | None:
        """`batch`, or None where memory did not suffice; returning first lets go of what the failed batch held."""
        try:
            return self.batch(rows)
        except torch.OutOfMemoryError:
            return None


def generate(
    model: PreTrainedModel,
    encoder: Encoder,
    prompts: list[Prompt],
    settings: dict,
    finished: Callable[[int, str], bool] | None = None,
    label: str = "generate",
) -> list[list[str]]:
    """`samples` texts for each prompt, in the order of the prompts.

    Args:
        finished: says of a prompt's number and a text whether all that follows will be cut off; writing then ends
            early. Not with beams.

    Raises:
        UserError: a prompt with `max_new_tokens` is longer than the model's positions, a chat is malformed or has no
            template, or not even one row fits into memory.
    """
    rows = rows_of(encoder, prompts, settings, model.config.max_position_embeddings)
    writer, samples = Writer(model, encoder, settings, finished), settings["samples"]
    # texts and chats end differently, so a batch holds one kind
    waiting = sorted(range(len(rows)), key=lambda row: (rows[row].ends, -len(rows[row].ids)))
    written, size, progress = [""] * len(rows), ROWS, Progress(label, "texts", len(rows))
    while waiting:
        chosen = [row for row in waiting[:size] if rows[row].ends == rows[waiting[0]].ends]
        texts = writer.attempt([rows[row] for row in chosen])
        if texts is None:
            if len(chosen) == 1:
                raise UserError(f"{model.device}: no memory for one prompt of {len(rows[chosen[0]].ids)} tokens")
            size = len(chosen) // 2
            torch.cuda.empty_cache()
            continue
        for row, text in zip(chosen, texts, strict=True):
            written[row] = text
        waiting = waiting[len(chosen) :]
        progress.add(len(chosen))
    progress.end()
    return [written[start : start + samples] for start in range(0, len(rows), samples)]
