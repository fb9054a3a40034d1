"""Perplexity and bits per byte of a model on the test examples of each dataset.

    python -m scripts.evaluation.perplexity --model results/training/base --datasets results/corpus/compose \\
        --settings '{"datasets": ["code"], "documents": 200, "context": 4096, "stride": 2048}' \\
        --out results/evaluation/perplexity/base

Examples are encoded as for training and targets are scored: of a text every token but the first, with the end of text;
of a chat the assistant's words and the ends of its turns. What is longer than `context` is scored in sliding windows,
chats too: each further window scores the next `stride` tokens, after as many earlier ones as fit, so nothing is left
out. Bits per byte counts the bytes of the scored tokens (none for control tokens), so it compares
models of different tokenizers; perplexity does not.
"""

import logging
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel

from scripts.common.cli import UserError, run
from scripts.common.progress import Progress
from scripts.evaluation.generation.examples import pick, test_hashes
from scripts.evaluation.generation.model import command, load, write
from scripts.evaluation.metrics.metric import by_language
from scripts.tokens.packing.encoder import Encoded, Encoder

# Tokens of a batch (padding included), and positions whose logits are held at a time: 152k words in float32 make the
# latter 0.6 GB.
BATCH = 16384
POSITIONS = 1024


@dataclass(frozen=True)
class Window:
    """Tokens [start, end) of an example, of which those from `new` on are scored."""

    example: int
    start: int
    new: int
    end: int


def windows(encoded: Encoded, context: int, stride: int) -> list[Window]:
    """Cut examples into windows of at most `context` tokens such that each target is new in exactly one.

    A window's first token has nothing before it, so with `stride` = `context` windows advance by context - 1. Windows
    without a target are left out.
    """
    step, result = min(stride, context - 1), []
    for example, (first, last) in enumerate(zip(encoded.offsets, encoded.offsets[1:], strict=False)):
        size, new, end = int(last - first), 1, min(context, int(last - first))
        while new < size:
            if encoded.targets[first + new : first + end].any():
                result.append(Window(example, max(0, end - context), new, end))
            new, end = end, min(end + step, size)
    return result


@torch.inference_mode()
def score(model: PreTrainedModel, encoded: Encoded, context: int, stride: int, label: str) -> np.ndarray:
    """float64 [examples]: the negative log-likelihood (nats) of each example's targets.

    The head is applied to the scored positions only, a few at a time, as models without soft-capping allow (Qwen2,
    Llama, SmolLM3).
    """
    body, head = model.get_decoder(), model.get_output_embeddings()
    cut = sorted(windows(encoded, context, stride), key=lambda window: window.start - window.end)
    nll = np.zeros(len(encoded.offsets) - 1)
    progress = Progress(label, "tokens", sum(window.end - window.start for window in cut))
    while cut:
        width = cut[0].end - cut[0].start
        batch, cut = cut[: max(1, BATCH // width)], cut[max(1, BATCH // width) :]
        # padded on the right: with causal attention what follows a token does not touch it
        ids = np.zeros((len(batch), width), np.int64)
        mask, scored = np.zeros(ids.shape, np.int64), np.zeros(ids.shape, bool)
        for row, window in enumerate(batch):
            offset, count = encoded.offsets[window.example], window.end - window.start
            ids[row, :count] = encoded.ids[offset + window.start : offset + window.end]
            mask[row, :count] = 1
            scored[row, window.new - window.start : count] = encoded.targets[offset + window.new : offset + window.end]
        rows, columns = np.nonzero(scored)
        hidden = body(
            input_ids=torch.from_numpy(ids).to(model.device),
            attention_mask=torch.from_numpy(mask).to(model.device),
            use_cache=False,
        ).last_hidden_state
        losses = [np.zeros(0)]
        for first in range(0, len(rows), POSITIONS):
            row, column = rows[first : first + POSITIONS], columns[first : first + POSITIONS]
            logits = head(hidden[row, column - 1]).float()  # a token is predicted from the position before it
            labels = torch.from_numpy(ids[row, column]).to(model.device)
            losses.append(functional.cross_entropy(logits, labels, reduction="none").double().cpu().numpy())
        np.add.at(nll, np.array([window.example for window in batch])[rows], np.concatenate(losses))
        progress.add(int(mask.sum()))
    progress.end()
    return nll


def summary(items: list[dict]) -> dict:
    """`{"documents", "tokens", "bytes", "perplexity", "bits_per_byte"}` over items.

    Raises:
        UserError: nothing was scored, or the model is broken.
    """
    nll, tokens, size = (sum(item[key] for item in items) for key in ("nll", "tokens", "bytes"))
    where = f"dataset {items[0]['dataset']}"
    if not size:
        raise UserError(f"{where}: its test examples hold no text to score; see corpus.filter and corpus.compose")
    if not nll / tokens < 700:  # exp overflows at 710
        raise UserError(f"{where}: the mean loss is {nll / tokens}; the model has diverged, lower its learning rate")
    return {
        "documents": len(items),
        "tokens": tokens,
        "bytes": size,
        "perplexity": math.exp(nll / tokens),
        "bits_per_byte": nll / math.log(2) / size,
    }


def evaluate(model: PreTrainedModel, encoder: Encoder, dataset: str, path: Path, wanted: dict) -> list[dict]:
    """Score the picked test examples of one dataset; the items are sorted by id.

    Raises:
        UserError: there is no test example, or one is malformed.
    """
    examples = pick(path, wanted["documents"])
    if not examples:
        raise UserError(f"{path}: no test example; raise corpus.split.test, or take {dataset} out of the evaluation")
    encoded = encoder.encode(examples)
    nll = score(model, encoded, wanted["context"], wanted["stride"], f"perplexity {dataset}")
    tokens = np.add.reduceat(encoded.targets, encoded.offsets[:-1], dtype=np.int64)
    sizes = np.add.reduceat(encoder.bytes_of[encoded.ids] * encoded.targets, encoded.offsets[:-1])
    return [
        {
            "dataset": dataset,
            "id": example["id"],
            "language": example["language"],
            "nll": float(nll[i]),
            "tokens": int(tokens[i]),
            "bytes": int(sizes[i]),
        }
        for i, example in enumerate(examples)
    ]


def perplexity(folder: Path, datasets: Path, wanted: dict, out: Path) -> dict:
    """Write `items.jsonl.zst` and `scores.json`, and return the latter.

    Raises:
        UserError: a dataset is not there or has no test example, or files are not what their manifest says.
    """
    hashes = test_hashes(datasets, wanted["datasets"], "perplexity")
    subject = load(folder)
    items, scores = [], {}
    for dataset in wanted["datasets"]:
        found = evaluate(subject.model, subject.encoder, dataset, datasets / dataset / "test.jsonl.zst", wanted)
        scores[dataset] = by_language(found, summary)
        items += found
        logging.info(f"perplexity {dataset}: {scores[dataset]['all']}")
    return write(out, subject, items, hashes, scores)


def main() -> None:
    arguments = command(__doc__, writes=False)
    arguments.add_argument("--datasets", type=Path, required=True, help="folder of the composed datasets")
    given = arguments.parse_args()
    perplexity(given.model, given.datasets, given.settings, given.out)


if __name__ == "__main__":
    run(main)
