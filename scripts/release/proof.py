"""Show that a released folder behaves as the model that was trained, before anybody gets it.

    lines = prove(Path("results/training/train/own"), Path("results/release/own"), samples, files=[])
    failed(lines)       # [] where everything is as it was trained

What people report of exported models goes wrong in the places that are compared here: another chat template, another
end token, a head that is no longer tied, weights merged into quantized ones, a vocabulary that is shifted, a normalizer
that was dropped, another rope_theta, a merge that is missing. The release is read as a stranger reads it: by
transformers, without any code of this project.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging as transformers_logging

from scripts.common.files import read_json
from scripts.evaluation.generation.likelihood import negative_log_likelihood
from scripts.evaluation.results.intervals import direction, estimate, fewest_clusters
from scripts.tokens.tokenization.encoder import Encoder
from scripts.training.model.loading import load_model

# texts that show what ordinary code does not: composed and decomposed letters, digits, spaces, line ends
ODD_TEXTS = [
    "caf\u00e9 cafe\u0301 \ufb01n \u212b \u00c5",
    "x = 1234567890 + 0x1F  # 3.14159",
    "\tif a:\r\n\t\treturn\r\n\r\n",
    "   leading, trailing   \n\n\n\nand   between",
    "I'll we've don't 'S 'RE",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \U0001f469\u200d\U0001f4bb \u202eabc\u202c",
    "a\u0000b\u0007c\u00a0d\u3000e",
]
CONTEXT, STRIDE = 512, 256  # tokens, of the bits per byte
LARGEST_LOSS = 0.02  # bits per byte that bf16, f16 or q8_0 may cost; a head that is missing costs a tenth and more
LOGITS_TOLERANCE = 5e-5  # of their spread; another order of float32 sums makes 1e-6, a wrong rope_theta 2e-4 and more
TOLERANCE = 1e-4  # bits per byte by which the released safetensors may differ in float32


@dataclass(frozen=True)
class Line:
    """One thing that was compared: what, whether it is as it must be (None: measured, without a bound), in words."""

    name: str
    holds: bool | None
    text: str


@dataclass
class Samples:
    """What the two models are compared on.

    Attributes:
        texts: documents, or parts of some.
        chats: whole chats, as lists of messages.
        completions: (prompt: messages or a text, what the evaluation has, new tokens at most, repetition penalty).
        documents: examples as `{"text": ...}` or `{"messages": ...}`, for bits per byte.
    """

    texts: list[str]
    chats: list[list[dict]]
    completions: list[tuple] = field(default_factory=list)
    documents: list[dict] = field(default_factory=list)


def failed(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.holds is False]


def prove(trained: Path, released: Path, samples: Samples, files: list[str], confidence: float = 0.95) -> list[Line]:
    """Compare a released folder with the model folder that it was made from.

    Args:
        files: names of GGUF files in `released`.

    Returns:
        a line for each comparison.
    """
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    encoder, tokenizer = Encoder(trained), AutoTokenizer.from_pretrained(released)
    chats = [chat for chat in samples.chats if not encoder.refusal({"messages": chat})]
    documents = encoder.accepted(samples.documents, "release")
    lines = [
        same_tokens(encoder, tokenizer, released, samples.texts),
        same_chats(encoder, tokenizer, chats),
        same_ends(trained, released, encoder, chats),
    ]
    model, stranger = load_model(trained, torch.float32).eval(), stranger_model(released)
    before = bits(model, encoder, documents)
    half = read_json(released / "config.json").get("dtype") == "bfloat16"
    if half:
        for parameter in model.parameters():
            parameter.data = parameter.data.bfloat16().float()
    lines += [same_logits(model, stranger), same_completions(stranger, tokenizer, samples.completions, not half)]
    lines.append(lost_bits("safetensors", before, bits(stranger, encoder, documents), confidence, not half))
    del model, stranger  # two are in memory at a time
    for name in files:
        reread = stranger_model(released, gguf_file=name)
        lines.append(lost_bits(name, before, bits(reread, encoder, documents), confidence))
    return lines


def stranger_model(folder: Path, **options) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **options).eval()


def share(equal: int, count: int) -> str:
    return f"{equal:,} of {count:,}"


def same_tokens(encoder: Encoder, tokenizer: PreTrainedTokenizerBase, released: Path, texts: list[str]) -> Line:
    """Token ids of texts: as in training, but that transformers reads a control token's name as that token.

    Read by transformers, whose classes replace parts of tokenizer.json by their own, and by the tokenizers library.
    """
    library = Tokenizer.from_file(str(released / "tokenizer.json"))
    plain = [text for text in [*ODD_TEXTS, *texts] if text and not any(name in text for name in encoder.controls)]
    encoded = encoder.encode([{"text": text} for text in plain])
    equal, first = 0, ""
    for number, text in enumerate(plain):
        expected = encoded.ids[encoded.offsets[number] : encoded.offsets[number + 1]].tolist()
        readings = [
            tokenizer.encode(text, add_special_tokens=False),
            library.encode(text, add_special_tokens=False).ids,
        ]
        if all([*encoder.lead, *ids, encoder.end] == expected for ids in readings):
            equal += 1
        elif not first:
            first = f"; first difference: {text[:40]!r}"
    return Line("token ids of texts", equal == len(plain), f"{share(equal, len(plain))} as in training{first}")


def same_chats(encoder: Encoder, tokenizer: PreTrainedTokenizerBase, chats: list[list[dict]]) -> Line:
    """Token ids of whole chats by the released template."""
    if not chats:
        return Line("token ids of chats", None, "no chats in the evaluation")
    equal, first = 0, ""
    for messages in chats:
        expected = encoder.encode([{"messages": messages}]).ids.tolist()
        try:
            found = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True)["input_ids"]
        except Exception as error:
            found, first = None, first or f"; {type(error).__name__}: {error}"
        if found == expected:
            equal += 1
        else:
            first = first or f"; first difference: {str(messages[-1]['content'])[:40]!r}"
    return Line("token ids of chats", equal == len(chats), f"{share(equal, len(chats))} as in training{first}")


def ends_of(config: dict) -> set[int]:
    ends = config.get("eos_token_id")
    if isinstance(ends, list):
        return set(ends)
    return {ends}


def same_ends(trained: Path, released: Path, encoder: Encoder, chats: list[list[dict]]) -> Line:
    """Whether generation stops where answers and documents ended in training."""
    expected = {encoder.end}
    if chats:
        encoded = encoder.encode([{"messages": chats[0]}])
        expected.add(int(encoded.ids[encoded.targets][-1]))
    expected |= ends_of(read_json(trained / "generation_config.json")) - {None}
    found = {name: ends_of(read_json(released / name)) for name in ("config.json", "generation_config.json")}
    holds = all(ends == expected for ends in found.values())
    words = "; ".join(f"{name} {sorted(map(str, ends))}" for name, ends in found.items())
    return Line("end tokens", holds, f"trained to end with {sorted(expected)}: {words}")


@torch.no_grad()
def logits_of(model: PreTrainedModel) -> torch.Tensor:
    """float32 [64, vocabulary] on a fixed text."""
    ids = torch.randint(0, model.config.vocab_size, (1, 64), generator=torch.Generator().manual_seed(1))
    return model(input_ids=ids, use_cache=False).logits[0]


def same_logits(model: PreTrainedModel, stranger: PreTrainedModel) -> Line:
    """Logits on a fixed text in float32, in units of their spread."""
    first, second = (logits_of(each) for each in (model, stranger))
    if first.shape != second.shape:
        return Line("logits", False, f"a vocabulary of {second.shape[-1]:,}, not {first.shape[-1]:,}")
    distance = float((first - second).square().mean().sqrt() / first.std())
    holds = distance <= LOGITS_TOLERANCE
    return Line("logits", holds, f"differ by {distance:.1e} of their spread")


def same_completions(
    stranger: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, completions: list[tuple], exact: bool
) -> Line:
    """Greedy completions of the evaluation, made again by transformers' own `generate`; rounded weights may differ."""
    if not completions:
        return Line("completions of the evaluation", None, "none that are greedy")
    equal, first = 0, ""
    for prompt, written, tokens, penalty in completions:
        if isinstance(prompt, str):
            ids = tokenizer(prompt, return_tensors="pt")
        else:
            ids = tokenizer.apply_chat_template(
                prompt, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
        options = {"max_new_tokens": tokens, "do_sample": False, "repetition_penalty": penalty}
        with torch.inference_mode():
            made = stranger.generate(**ids, **options)[0, ids["input_ids"].shape[1] :]
        text = tokenizer.decode(made, skip_special_tokens=True)
        if text == written or (isinstance(prompt, str) and text.startswith(written)):
            equal += 1
        elif not first:
            place = next((n for n, pair in enumerate(zip(text, written, strict=False)) if len(set(pair)) > 1), 0)
            first = f"; first difference at character {place}: {text[place : place + 20]!r}"
    # a float sum in another order may turn a tie, so most must be equal, not all
    holds = equal >= 0.75 * len(completions) if exact else None
    return Line("completions of the evaluation", holds, f"{share(equal, len(completions))} again word for word{first}")


def bits(model: PreTrainedModel, encoder: Encoder, documents: list[dict]) -> np.ndarray:
    """float64 [documents]: bits per byte of each document."""
    encoded = encoder.encode(documents)
    nll = negative_log_likelihood(model, encoded, CONTEXT, STRIDE, "release")
    sizes = []
    for number in range(len(documents)):
        part = slice(encoded.offsets[number], encoded.offsets[number + 1])
        sizes.append(encoder.bytes_of[encoded.ids[part][encoded.targets[part]]].sum())
    return nll / math.log(2) / np.maximum(sizes, 1)


def lost_bits(name: str, before: np.ndarray, after: np.ndarray, confidence: float, exact: bool = False) -> Line:
    """Bits per byte that a format loses, document by document; none where it is `exact`, and of rounded weights a
    little: a loss of more than `LARGEST_LOSS` is another model."""
    lost = after - before
    words = f"{before.mean():.4f} as trained, {after.mean():.4f}"
    if len(lost) >= fewest_clusters(confidence):
        found = estimate(lost, len(lost), confidence)
        low, high = found.interval
        words += f": {found.value:+.5f} [{low:+.5f}, {high:+.5f}], {direction(found.interval)}"
    words += f", {len(lost)} documents"
    holds = False if float(lost.mean()) > LARGEST_LOSS else None
    if exact:
        holds = abs(float(lost.mean())) <= TOLERANCE
    return Line(f"bits per byte, {name}", holds, words)
