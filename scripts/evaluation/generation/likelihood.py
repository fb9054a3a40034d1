"""The negative log-likelihood of encoded examples' targets; examples longer than the context are scored in windows.

nll = negative_log_likelihood(model, encoder.encode(examples), context=4096, stride=2048, label="perplexity code")
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from scripts.common.progress import Progress
from scripts.tokens.packing.encoder import Encoded

BATCH = 16384  # tokens, padding included
FULL = 0.9  # of a batch's longest window, the least that its others have: padding costs as much as tokens
POSITIONS = 1024  # whose logits are in memory at a time: with a vocabulary of 152k, 0.6 GB in float32


@dataclass(frozen=True)
class Window:
    """Tokens [start, end) of an example; those from `new` on are scored."""

    example: int
    start: int
    new: int
    end: int


def windows(encoded: Encoded, context: int, stride: int) -> list[Window]:
    """Cut examples into windows of at most `context` tokens such that each target is new in exactly one.

    A window's first token has no predecessor to be predicted from, so with `stride` = `context` windows advance by
    context - 1. Windows without a target are left out.
    """
    step, result = min(stride, context - 1), []
    for example, (first, last) in enumerate(zip(encoded.offsets, encoded.offsets[1:], strict=False)):
        size, new, end = int(last - first), 1, min(context, int(last - first))
        while new < size:
            if encoded.targets[first + new : first + end].any():
                result.append(Window(example, max(0, end - context), new, end))
            new, end = end, min(end + step, size)
    return result


def even_windows(encoded: Encoded, context: int, stride: int) -> list[Window]:
    """As `windows`, but the first window too has at most `stride` new tokens: what stands before each is known."""
    step, result = min(stride, context - 1), []
    for example, (first, last) in enumerate(zip(encoded.offsets, encoded.offsets[1:], strict=False)):
        size = int(last - first)
        for new in range(0, size, step):
            end = min(new + step, size)
            scored = max(new, 1)  # nothing predicts the first token
            if encoded.targets[first + scored : first + end].any():
                result.append(Window(example, max(0, end - context), scored, end))
    return result


def joined(cut: list[Window]) -> list[Window]:
    """Even windows, of each example those that begin at its first token as one: the same tokens stand before theirs."""
    result = []
    for window in cut:
        if result and result[-1].example == window.example and window.start == 0:
            window = replace(window, new=result.pop().new)
        result.append(window)
    return result


class Given(torch.nn.Module):
    """Stands for a model's body whose output is known already."""

    def __init__(self, output: ModelOutput):
        super().__init__()
        self.output = output

    def forward(self, *_, **__) -> ModelOutput:
        return self.output


def logits_of(model: PreTrainedModel, output: ModelOutput, hidden: torch.Tensor) -> torch.Tensor:
    """The logits [positions, vocabulary] of hidden states [positions, width], by the model's own forward.

    The head alone is not enough: Gemma 2 caps its logits, Granite and Cohere scale theirs.

    Args:
        output: of the body; its hidden states are replaced.
    """
    body = getattr(model, model.base_model_prefix)
    output["last_hidden_state"] = hidden[None]
    setattr(model, model.base_model_prefix, Given(output))
    try:
        ids = torch.zeros(1, len(hidden), dtype=torch.long, device=hidden.device)
        return model(input_ids=ids, use_cache=False).logits[0]
    finally:
        setattr(model, model.base_model_prefix, body)


@torch.inference_mode()
def negative_log_likelihood(
    model: PreTrainedModel,
    encoded: Encoded,
    context: int,
    stride: int,
    label: str,
    cut: list[Window] | None = None,
    prefixes: Mapping[Window, np.ndarray] | None = None,
    hits: np.ndarray | None = None,
) -> np.ndarray:
    """float64 [examples]: the negative log-likelihood (nats) of each example's targets.

    The head is applied to the scored positions only, a few at a time.

    Args:
        cut: the windows; by default as `windows` cuts them.
        prefixes: ids that stand before a window, as retrieved code; none where a window is missing.
        hits: bool [tokens], set where a target is the likeliest token.
    """
    body, prefixes = getattr(model, model.base_model_prefix), prefixes or {}
    no_prefix = np.zeros(0, np.uint32)

    def length(window: Window) -> int:
        return len(prefixes.get(window, no_prefix)) + window.end - window.start

    cut = sorted(windows(encoded, context, stride) if cut is None else cut, key=length, reverse=True)
    nll = np.zeros(len(encoded.offsets) - 1)
    progress = Progress(label, "tokens", sum(map(length, cut)))
    while cut:
        width, count = length(cut[0]), 1
        while count < len(cut) and (count + 1) * width <= BATCH and length(cut[count]) >= FULL * width:
            count += 1
        batch, cut = cut[:count], cut[count:]
        # padded on the right: with causal attention, later tokens do not affect earlier ones
        ids = np.zeros((len(batch), width), np.int64)
        mask, scored = np.zeros(ids.shape, np.int64), np.zeros(ids.shape, bool)
        places = np.zeros(ids.shape, np.int64)  # of each token in `encoded`
        for row, window in enumerate(batch):
            prefix, offset, count = prefixes.get(window, no_prefix), encoded.offsets[window.example], length(window)
            ids[row, : len(prefix)] = prefix
            ids[row, len(prefix) : count] = encoded.ids[offset + window.start : offset + window.end]
            places[row, len(prefix) : count] = np.arange(offset + window.start, offset + window.end)
            mask[row, :count] = 1
            targets = encoded.targets[offset + window.new : offset + window.end]
            scored[row, count - len(targets) : count] = targets
        rows, columns = np.nonzero(scored)
        output = body(
            input_ids=torch.from_numpy(ids).to(model.device),
            attention_mask=torch.from_numpy(mask).to(model.device),
            use_cache=False,
        )
        hidden = output.last_hidden_state
        losses = [np.zeros(0)]
        for first in range(0, len(rows), POSITIONS):
            row, column = rows[first : first + POSITIONS], columns[first : first + POSITIONS]
            # a token is predicted from the position before it
            logits = logits_of(model, output, hidden[row, column - 1]).float()
            labels = torch.from_numpy(ids[row, column]).to(model.device)
            if hits is not None:
                hits[places[row, column]] = (logits.argmax(dim=-1) == labels).cpu().numpy()
            losses.append(functional.cross_entropy(logits, labels, reduction="none").double().cpu().numpy())
        np.add.at(nll, np.array([window.example for window in batch])[rows], np.concatenate(losses))
        progress.add(int(mask.sum()))
    progress.end()
    return nll
