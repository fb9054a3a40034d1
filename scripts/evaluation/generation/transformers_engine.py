"""Generate with transformers: completions for prompts, many at a time, the longest prompts first.

    encoder = Encoder(folder)
    completions = generate(model, encoder, ["def add(a, b):\\n"], settings, seed=42)  # completions[0][0]: first sample

A prompt is a text to continue, a text to fill in, or a chat to answer with one more turn. It is encoded as for
training, so a control token spelled out in it is plain text. A text that ends inside a token is healed (healing.py).
The model folder's own generation defaults are ignored.

A completion does not depend on its batch. Sampling takes the token with the largest logit / temperature + Gumbel noise,
which draws from the softmax, with a noise stream per sample, seeded from its prompt and number. In float32 the result
equals batch size 1. In bfloat16 a batch of another shape rounds differently, so a near tie may be decided differently.
Finished rows therefore leave their batch after a few tokens, and others take their places; where a cache holds a window
or a state, rows stay to the end.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import transformers
from torch.nn.functional import pad
from transformers import (
    DynamicCache,
    GenerationConfig,
    LogitsProcessor,
    PreTrainedModel,
    StoppingCriteria,
    TopPLogitsWarper,
)
from transformers.cache_utils import DynamicLayer

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
# New tokens between two checks whether a completion is finished, and until finished rows leave the batch.
CHECK_EVERY, SEGMENT = 16, 32
JOINING = 0.25  # of a batch's rows, which must be free until others are begun


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
    """Turns the argmax over scores [rows, vocabulary] into a sample, by the noise stream of each row."""

    def __init__(self, rows: list["Row"], settings: Generation):
        self.rows, self.settings = rows, settings

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        scores = nucleus(scores.float() / self.settings.temperature, self.settings.top_p)
        noise = torch.empty_like(scores)
        for row, of_row in zip(self.rows, noise, strict=True):
            of_row.exponential_(generator=row.noise)
        return scores - noise.log()


class Spelling(LogitsProcessor):
    """Allows only tokens that spell what is due in a row, until it is spelled. `width`: columns at the beginning."""

    def __init__(self, encoder: Encoder, rows: list["Row"], width: int):
        self.encoder, self.rows, self.width = encoder, rows, width

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if not any(row.due for row in self.rows):
            return scores
        for number, (row, last) in enumerate(zip(self.rows, input_ids[:, -1].tolist(), strict=True)):
            if row.due and (row.written or input_ids.shape[1] > self.width):
                row.due = row.due[len(self.encoder.spelled[last]) :]
            allowed = vocabulary_of(self.encoder).allowed(row.due) if row.due else ()
            if len(allowed):  # a vocabulary of whole words may not be able to spell a part of one
                allowed = torch.from_numpy(allowed).to(scores.device)
                kept = scores[number, allowed]
                scores[number] = -torch.inf
                scores[number, allowed] = kept
        return scores


class Finished(StoppingCriteria):
    """Ends the rows of which `finished(row, all ids that it has written)` holds: later text would be cut off anyway.

    Attributes:
        ended: numbers of these rows.
    """

    def __init__(self, finished: Callable[["Row", list[int]], bool], rows: list["Row"], width: int, every: int):
        self.finished, self.rows, self.width, self.every, self.ended = finished, rows, width, every, set()

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor, **_) -> torch.Tensor:
        new, ends = input_ids.shape[1] - self.width, torch.zeros(len(input_ids), dtype=torch.bool)
        for number, row in enumerate(self.rows):
            due = (len(row.written) + new) % self.every == 0 and number not in self.ended
            if due and self.finished(row, row.written + input_ids[number, self.width :].tolist()):
                self.ended.add(number)
        ends[list(self.ended)] = True
        return ends.to(input_ids.device)


class Start(NamedTuple):
    """What a model is given of a prompt."""

    ids: list[int]
    ends: list[int]  # ids that end a completion
    due: bytes = b""  # what the completion's first tokens spell: the end of the prompt, which was taken back
    removed: int = 0  # how many tokens were taken back


@dataclass(eq=False)
class Row:
    """One completion to generate.

    Attributes:
        number: of the completion, among all.
        prompt: number of its prompt.
        new: tokens of the completion at most, with those that spell what is due.
        written: the ids so far.
        due: what is still to be spelled.
        noise: the stream that its samples are drawn with, from `seed`.
    """

    number: int
    prompt: int
    start: Start
    seed: int
    new: int

    def begin(self, device: torch.device) -> None:
        self.written, self.due = [], self.start.due
        self.noise = torch.Generator(device).manual_seed(self.seed)


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
        for row_seed in seeds:
            rows.append(Row(len(rows), number, start, row_seed, start.removed + new))
    return rows


class Batch:
    """Rows that are written together, padded on the left.

    Attributes:
        ids: int64 [rows, width], prompts and what was written.
        mask: int64 [rows, width], 0 on padding.
        cache: of the first width - 1 columns; None before the first token.
    """

    def __init__(self, rows: list[Row], pad: int, device: torch.device):
        self.rows, self.pad, self.cache = rows, pad, None
        width = max(len(row.start.ids) for row in rows)
        self.ids = torch.full((len(rows), width), pad, device=device)
        self.mask = torch.zeros_like(self.ids)
        for number, row in enumerate(rows):
            row.begin(device)
            self.ids[number, width - len(row.start.ids) :] = torch.tensor(row.start.ids, device=device)
            self.mask[number, width - len(row.start.ids) :] = 1

    def layers(self) -> list[DynamicLayer]:
        """The layers that have a cache of their own."""
        return [layer for layer in self.cache.layers if layer.is_initialized]

    def keep(self, numbers: list[int]) -> None:
        """Go on with these rows alone, and without columns in which none of them has a token."""
        self.rows = [self.rows[number] for number in numbers]
        self.ids, self.mask = self.ids[numbers], self.mask[numbers]
        self.cache.batch_select_indices(torch.tensor(numbers, device=self.ids.device))
        first = int(self.mask.any(0).int().argmax())
        self.ids, self.mask = self.ids[:, first:], self.mask[:, first:]
        for layer in self.layers():
            layer.keys, layer.values = layer.keys[..., first:, :], layer.values[..., first:, :]

    def widen(self, width: int) -> None:
        """Add columns of padding on the left."""
        more = width - self.ids.shape[1]
        if not more:  # padding by nothing would copy the cache
            return
        self.ids, self.mask = pad(self.ids, (more, 0), value=self.pad), pad(self.mask, (more, 0))
        for layer in self.layers():
            layer.keys, layer.values = pad(layer.keys, (0, 0, more, 0)), pad(layer.values, (0, 0, more, 0))

    def join(self, other: "Batch") -> None:
        """Take over the rows of another batch."""
        width = max(self.ids.shape[1], other.ids.shape[1])
        self.widen(width)
        other.widen(width)
        self.rows, self.ids = self.rows + other.rows, torch.cat([self.ids, other.ids])
        self.mask = torch.cat([self.mask, other.mask])
        for ours, theirs in zip(self.layers(), other.layers(), strict=True):
            ours.keys, ours.values = torch.cat([ours.keys, theirs.keys]), torch.cat([ours.values, theirs.values])


class BatchGenerator:
    """One model with one set of settings; see the module.

    Attributes:
        divisible: whether rows can leave and join a batch: all layers of the cache hold all columns.
    """

    def __init__(
        self, model: PreTrainedModel, encoder: Encoder, settings: Generation, finished: Callable | None, every: int
    ):
        self.model, self.encoder, self.settings = model, encoder, settings
        self.finished, self.every = finished, every
        model.generation_config = GenerationConfig()
        self.divisible = not model._is_stateful
        if self.divisible:
            self.divisible = all(type(layer) is DynamicLayer for layer in DynamicCache(config=model.config).layers)

    def is_finished(self, row: Row, ids: list[int]) -> bool:
        return self.finished(row.prompt, decode(self.encoder, ids, row.start))

    @torch.inference_mode()
    def write(self, batch: Batch, most: int) -> dict[int, str]:
        """Write at most so many tokens in each row; the rows must have the same ends.

        Returns:
            number of a completion → its text, of those that are finished; these have left the batch.
        """
        rows, width, ends = batch.rows, batch.ids.shape[1], batch.rows[0].start.ends
        processors = [Spelling(self.encoder, rows, width)]
        if self.settings.temperature:
            processors.append(Gumbel(rows, self.settings))
        finished = Finished(self.is_finished, rows, width, self.every)
        config = GenerationConfig(
            do_sample=False,
            repetition_penalty=self.settings.repetition_penalty,
            max_new_tokens=most,
            eos_token_id=ends,
            pad_token_id=self.encoder.pad,
            use_cache=True,
            return_dict_in_generate=True,
        )
        output = self.model.generate(
            input_ids=batch.ids,
            attention_mask=batch.mask,
            generation_config=config,
            logits_processor=processors,
            stopping_criteria=[finished] if self.finished else [],
            **({"past_key_values": batch.cache} if batch.cache else {}),
        )
        texts, going_on = {}, []
        batch.ids, batch.cache = output.sequences, output.past_key_values
        batch.mask = pad(batch.mask, (0, batch.ids.shape[1] - width), value=1)
        for number, (row, ids) in enumerate(zip(rows, batch.ids[:, width:].tolist(), strict=True)):
            row.written += ids
            if number in finished.ended or len(row.written) >= row.new or not set(ends).isdisjoint(ids):
                texts[row.number] = decode(self.encoder, row.written[: row.new], row.start)
            else:
                going_on.append(number)
        if going_on and texts:
            batch.keep(going_on)
        elif texts:
            batch.rows = []
        return texts

    def steps(self, batch: Batch, running: Batch | None, last: bool) -> int:
        """The tokens that a batch writes until rows may leave it or join it.

        Args:
            running: what it joins after its first token, if it is another batch.
            last: whether nobody waits.
        """
        most = max(row.new - len(row.written) for row in batch.rows)
        if running not in (None, batch):
            return 1
        if self.divisible and not (last and len(batch.rows) == 1):
            return min(most, SEGMENT)
        return most


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
    waiting = sorted(rows, key=lambda row: (row.start.ends, -len(row.start.ids)))
    completions, size, progress = [""] * len(rows), ROWS, Progress(label, "texts", len(rows))
    running = None
    while waiting or running:
        begun = running.rows if running else []
        free, new = size - len(begun), []
        if free >= JOINING * size:
            ends = [*begun, *waiting][0].start.ends
            new = [row for row in waiting[:free] if row.start.ends == ends]
        try:
            batch = Batch(new, encoder.pad, model.device) if new else running
            texts = generator.write(batch, generator.steps(batch, running, last=len(waiting) == len(new)))
            if running and batch is not running and batch.rows:
                running.join(batch)
            fits = True
        except torch.OutOfMemoryError:
            fits = False
        if not fits:  # outside of `except`, which holds on to what the failed batch had
            begun = begun + new
            if len(begun) == 1:
                raise UserError(f"{model.device}: no memory for one prompt of {len(begun[0].start.ids)} tokens")
            size, waiting = len(begun) // 2, [*begun, *waiting[len(new) :]]
            running = batch = None
            torch.cuda.empty_cache()
            continue
        waiting, running = waiting[len(new) :], running or batch
        if not running.rows:
            running = None
        for number, text in texts.items():
            completions[number] = text
        progress.add(len(texts))
    progress.end()
    return [completions[start : start + samples] for start in range(0, len(rows), samples)]
