"""Generate with transformers: completions for prompts, batch by batch, the longest prompts first.

    encoder = Encoder(folder)
    completions = generate(model, encoder, ["def add(a, b):\\n"], settings, seed=42)  # completions[0][0]: first sample

A prompt is a text to continue, a text to fill in, or a chat to answer with one more turn. It is encoded as for
training, so a control token spelled out in it is plain text. A text that ends inside a token is healed (healing.py).
The model folder's own generation defaults are ignored.

A completion does not depend on its batch. Sampling takes the token with the largest logit / temperature + Gumbel noise,
which draws from the softmax, with a noise stream per sample, seeded from its prompt and number. In float32 the result
equals batch size 1. In bfloat16 a batch of another shape rounds differently, so a near tie may be decided differently.
"""

import json
from collections.abc import Callable
from typing import NamedTuple

import torch
import transformers
from transformers import GenerationConfig, LogitsProcessor, PreTrainedModel, StoppingCriteria, TopPLogitsWarper

from scripts.common.errors import UserError
from scripts.common.progress import Progress
from scripts.evaluation.generation.examples import Infill, Prompt
from scripts.evaluation.generation.healing import heal, vocabulary_of
from scripts.evaluation.results.intervals import content_seed
from scripts.experiment.settings.suites import Generation
from scripts.tokens.tokenization.encoder import Encoder, excerpt

# Control tokens by which models of Qwen2.5's form end a middle; a tokenizer may lack some of them.
INFILL_ENDS = ("<|fim_pad|>", "<|file_sep|>", "<|repo_name|>", "<|im_end|>", "<|file_separator|>")

ENGINE = {"name": "transformers", "version": transformers.__version__}

# Rows of the first batch; halved as often as memory requires.
ROWS = 64
# New tokens between two checks whether a completion is finished.
CHECK_EVERY = 16


# Of the likeliest tokens so many are sorted for `top_p`: of a whole vocabulary of 152k it takes ten times as long.
CANDIDATES = 1024


def nucleus(scores: torch.Tensor, top_p: float) -> torch.Tensor:
    """The scores [rows, vocabulary], -inf but for the likeliest tokens that together have the probability `top_p`
    (Holtzman et al. 2020), as transformers' TopPLogitsWarper gives them."""
    if top_p >= 1:
        return scores
    likeliest = scores.topk(min(CANDIDATES, scores.shape[1])).values
    probability = (likeliest - scores.logsumexp(-1, keepdim=True)).exp()
    before = probability.cumsum(-1) - probability
    if ((before + probability)[:, -1] < top_p).any():  # a flat distribution, whose nucleus is larger
        return TopPLogitsWarper(top_p)(None, scores)
    kept = (before < top_p).sum(-1, keepdim=True)
    return scores.masked_fill(scores < likeliest.gather(1, kept - 1), -torch.inf)


class Gumbel(LogitsProcessor):
    """Turns the argmax over scores [rows, vocabulary] into a sample, with a noise stream per row."""

    def __init__(self, seeds: list[int], temperature: float, top_p: float, device: torch.device):
        self.streams = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.temperature, self.top_p = temperature, top_p

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = nucleus(scores.float() / self.temperature, self.top_p)
        noise = torch.empty_like(scores)
        for row, stream in zip(noise, self.streams, strict=True):
            row.exponential_(generator=stream)
        return scores - noise.log()


class Spelling(LogitsProcessor):
    """Allows only tokens that spell what is due in a row, until it is spelled. `due`: of each row."""

    def __init__(self, encoder: Encoder, due: list[bytes], width: int):
        self.encoder, self.due, self.width = encoder, due, width

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if not any(self.due):
            return scores
        written = input_ids[:, self.width :].tolist()
        for row, ids in enumerate(written):
            if ids:
                self.due[row] = self.due[row][len(self.encoder.spelled[ids[-1]]) :] if self.due[row] else b""
            allowed = vocabulary_of(self.encoder).allowed(self.due[row]) if self.due[row] else ()
            if len(allowed):  # a vocabulary of whole words may not be able to spell a part of one
                allowed = torch.from_numpy(allowed).to(scores.device)
                kept = scores[row, allowed]
                scores[row] = -torch.inf
                scores[row, allowed] = kept
        return scores


class Finished(StoppingCriteria):
    """Ends the rows for which `finished(row, new ids)` holds: later text would be cut off anyway."""

    def __init__(self, finished: Callable[[int, list[int]], bool], width: int, every: int):
        self.finished, self.width, self.every = finished, width, every

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_) -> torch.Tensor:
        ends = torch.zeros(len(input_ids), dtype=torch.bool)
        if (input_ids.shape[1] - self.width) % self.every == 0:
            new_ids = input_ids[:, self.width :].tolist()
            ends[:] = torch.tensor([self.finished(row, ids) for row, ids in enumerate(new_ids)])
        return ends.to(input_ids.device)


class Start(NamedTuple):
    """What a model is given of a prompt."""

    ids: list[int]
    ends: list[int]  # ids that end a completion
    due: bytes = b""  # what the completion's first tokens spell: the end of the prompt, which was taken back
    removed: int = 0  # how many tokens were taken back


class Row(NamedTuple):
    """One completion to generate."""

    prompt: int  # number of its prompt
    start: Start
    seed: int  # of its noise
    new: int  # tokens of the completion at most, with those that spell what is due

    @property
    def ids(self) -> list[int]:
        return self.start.ids


def encode(encoder: Encoder, prompt: Prompt) -> Start:
    """The prompt as a model is given it."""
    if isinstance(prompt, str):
        healed = heal(encoder, encoder.encode([{"text": prompt}]).ids[:-1].tolist())
        return Start(healed.ids or [encoder.end], [encoder.end], healed.due, healed.removed)
    if isinstance(prompt, Infill):
        prefix = heal(encoder, encoder.encode([{"text": prompt.prefix}]).ids[len(encoder.lead) : -1].tolist())
        suffix = encoder.continuation(prompt.suffix)
        first, second, last, end = encoder.infill
        known = [encoder.files.find(token) for token in INFILL_ENDS]
        ends = list(dict.fromkeys([encoder.end, end, *(token for token in known if token is not None)]))
        ids = [*encoder.lead, first, *prefix.ids, second, *suffix, last]
        return Start(ids, ends, prefix.due, prefix.removed)
    ids, turn_end = encoder.chat_prompt(prompt)
    return Start(ids, [encoder.end, turn_end])


def decode(encoder: Encoder, ids: list[int], start: Start) -> str:
    """The text behind the prompt, up to what ends it, without control tokens and ids that the tokenizer does not
    know."""
    stop = next((place for place, token in enumerate(ids) if token in start.ends), len(ids))
    return encoder.text(ids[:stop])[len(start.due) :].decode("utf-8", "replace")


def rows_of(encoder: Encoder, prompts: list[Prompt], settings: Generation, seed: int, positions: int) -> list[Row]:
    """`settings.samples` rows per prompt, in the order of the prompts.

    Args:
        positions: the model's number of positions.

    Raises:
        UserError: a prompt with `max_new_tokens` needs more positions, or a chat is malformed or has no template.
    """
    new, rows = settings.max_new_tokens, []
    for number, prompt in enumerate(prompts):
        start = encode(encoder, prompt)
        size = len(start.ids) + start.removed
        if size + new > positions:
            raise UserError(
                f"{excerpt(prompt)}: {size} tokens and max_new_tokens {new} exceed the model's {positions} positions"
            )
        content = json.dumps(prompt, sort_keys=True)
        seeds = [content_seed(str(seed), content, str(sample)) % 2**63 for sample in range(settings.samples)]
        rows += [Row(number, start, row_seed, start.removed + new) for row_seed in seeds]
    return rows


class BatchGenerator:
    """One model with one set of settings; see the module."""

    def __init__(
        self, model: PreTrainedModel, encoder: Encoder, settings: Generation, finished: Callable | None, every: int
    ):
        self.model, self.encoder, self.settings = model, encoder, settings
        self.finished, self.every = finished, every
        model.generation_config = GenerationConfig()

    @torch.inference_mode()
    def generate(self, rows: list[Row]) -> list[str]:
        """The completion of each row; all must have the same ends."""
        settings, width, ends = self.settings, max(len(row.ids) for row in rows), rows[0].start.ends
        ids = torch.tensor([[self.encoder.pad] * (width - len(row.ids)) + row.ids for row in rows])
        mask = torch.tensor([[0] * (width - len(row.ids)) + [1] * len(row.ids) for row in rows])
        device, criteria = self.model.device, []
        processors = [Spelling(self.encoder, [row.start.due for row in rows], width)]
        if settings.temperature:
            processors.append(Gumbel([row.seed for row in rows], settings.temperature, settings.top_p, device))
        if self.finished:

            def finished(row: int, new_ids: list[int]) -> bool:
                return self.finished(rows[row].prompt, decode(self.encoder, new_ids, rows[row].start))

            criteria.append(Finished(finished, width, self.every))
        config = GenerationConfig(
            do_sample=False,
            repetition_penalty=settings.repetition_penalty,
            max_new_tokens=max(row.new for row in rows),
            eos_token_id=ends,
            pad_token_id=self.encoder.pad,
            use_cache=True,
        )
        output = self.model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.to(device),
            generation_config=config,
            logits_processor=processors,
            stopping_criteria=criteria,
        )
        written = zip(rows, output[:, width:].tolist(), strict=True)
        return [decode(self.encoder, ids[: row.new], row.start) for row, ids in written]

    def generate_if_it_fits(self, rows: list[Row]) -> list[str] | None:
        """`generate`, or None if out of memory; returning before the retry releases what the failed batch held."""
        try:
            return self.generate(rows)
        except torch.OutOfMemoryError:
            return None


def generate(
    model: PreTrainedModel,
    encoder: Encoder,
    prompts: list[Prompt],
    settings: Generation,
    seed: int,
    finished: Callable[[int, str], bool] | None = None,
    label: str = "generate",
    every: int = CHECK_EVERY,
) -> list[list[str]]:
    """`settings.samples` completions per prompt, in the order of the prompts.

    Args:
        finished: (number of a prompt, its completion so far) → whether all later text will be cut off; generation then
            ends early.
        label: of the progress lines.
        every: new tokens between two calls of `finished`.

    Raises:
        UserError: a prompt with `max_new_tokens` exceeds the model's positions, a chat is malformed or has no template,
            or not even one row fits into memory.
    """
    rows = rows_of(encoder, prompts, settings, seed, model.config.max_position_embeddings)
    generator, samples = BatchGenerator(model, encoder, settings, finished, every), settings.samples
    # texts and chats end differently, so a batch holds one kind
    waiting = sorted(range(len(rows)), key=lambda row: (rows[row].start.ends, -len(rows[row].ids)))
    completions, size, progress = [""] * len(rows), ROWS, Progress(label, "texts", len(rows))
    while waiting:
        batch = [row for row in waiting[:size] if rows[row].start.ends == rows[waiting[0]].start.ends]
        texts = generator.generate_if_it_fits([rows[row] for row in batch])
        if texts is None:
            if len(batch) == 1:
                raise UserError(f"{model.device}: no memory for one prompt of {len(rows[batch[0]].ids)} tokens")
            size = len(batch) // 2
            torch.cuda.empty_cache()
            continue
        for row, text in zip(batch, texts, strict=True):
            completions[row] = text
        waiting = waiting[len(batch) :]
        progress.add(len(batch))
    progress.end()
    return [completions[start : start + samples] for start in range(0, len(rows), samples)]
