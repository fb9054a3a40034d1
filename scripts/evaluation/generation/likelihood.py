"""The negative log-likelihood of encoded examples' targets; examples longer than the context are scored in windows.

nll = negative_log_likelihood(model, encoder.encode(examples), context=4096, stride=2048, label="perplexity code")
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from scripts.common.progress import Progress
from scripts.evaluation.code_tasks.lines import Likeliest
from scripts.tokens.tokenization.encoder import Encoded

BATCH, CPU_BATCH = 16384, 1024  # tokens, padding included; on a CPU the activations of more leave its caches
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


def even_windows(
    encoded: Encoded, context: int, stride: int, runs: Sequence[Sequence[tuple[int, int]]] | None = None
) -> list[Window]:
    """As `windows`, but each window has at most `stride` new tokens, also the first one: what stands before each is
    known.

    Args:
        runs: of each example the runs of tokens (first, end) that the windows cover; by default all of it.
    """
    step, result = min(stride, context - 1), []
    for example, (start, stop) in enumerate(zip(encoded.offsets, encoded.offsets[1:], strict=False)):
        for first, last in runs[example] if runs else [(0, int(stop - start))]:
            for new in range(first, last, step):
                end = min(new + step, last)
                scored = max(new, 1)  # nothing predicts the first token
                if runs or encoded.targets[start + scored : start + end].any():
                    result.append(Window(example, max(0, end - context), scored, end))
    return result


def joined(cut: list[Window]) -> list[Window]:
    """Even windows, of each example those that begin at its first token as one: the same tokens stand before theirs."""
    result = []
    for window in cut:
        before = result[-1] if result else None
        if before and (before.example, before.end) == (window.example, window.new) and window.start == 0:
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
    likeliest: Likeliest | None = None,
) -> np.ndarray:
    """float64 [examples]: the negative log-likelihood (nats) of each example's targets.

    The head is applied to the scored positions only, a few at a time.

    Args:
        cut: the windows; by default as `windows` cuts them.
        prefixes: ids that stand before a window, as retrieved code; none where a window is missing.
        likeliest: asks for the likeliest token at some places, targets or not, which must lie in the windows.
    """
    body, prefixes = getattr(model, model.base_model_prefix), prefixes or {}
    no_prefix = np.zeros(0, np.uint32)

    def length(window: Window) -> int:
        return len(prefixes.get(window, no_prefix)) + window.end - window.start

    cut = sorted(windows(encoded, context, stride) if cut is None else cut, key=length, reverse=True)
    nll, asked = np.zeros(len(encoded.offsets) - 1), encoded.targets
    if likeliest:
        asked = asked | likeliest.asked
    progress = Progress(label, "tokens", sum(map(length, cut)))
    most = BATCH
    if model.device.type == "cpu":
        most = CPU_BATCH
    unread = []  # (examples of the targets, whether they count, losses on the device) of the newest batch

    def read() -> None:
        """Add the losses of a batch. On a GPU the next one runs meanwhile."""
        for examples, counts, losses in unread:
            np.add.at(nll, examples, np.where(counts, losses.cpu().numpy(), 0.0))
        unread.clear()

    while cut:
        width, count = length(cut[0]), 1
        while count < len(cut) and (count + 1) * width <= most and length(cut[count]) >= FULL * width:
            count += 1
        batch, cut = cut[:count], cut[count:]
        # padded on the right: with causal attention later tokens do not affect earlier ones, and without a mask the
        # kernel is the fast one
        ids, scored = np.zeros((len(batch), width), np.int64), np.zeros((len(batch), width), bool)
        places = np.zeros(ids.shape, np.int64)  # of each token in `encoded`
        for row, window in enumerate(batch):
            prefix, offset, count = prefixes.get(window, no_prefix), encoded.offsets[window.example], length(window)
            ids[row, : len(prefix)] = prefix
            ids[row, len(prefix) : count] = encoded.ids[offset + window.start : offset + window.end]
            places[row, len(prefix) : count] = np.arange(offset + window.start, offset + window.end)
            new = asked[offset + window.new : offset + window.end]
            scored[row, count - len(new) : count] = new
        rows, columns = np.nonzero(scored)
        output = body(input_ids=torch.from_numpy(ids).to(model.device), use_cache=False)
        hidden = output.last_hidden_state
        losses = [torch.zeros(0, dtype=torch.float64, device=hidden.device)]
        for first in range(0, len(rows), POSITIONS):
            row, column = rows[first : first + POSITIONS], columns[first : first + POSITIONS]
            # a token is predicted from the position before it
            logits = logits_of(model, output, hidden[row, column - 1]).float()
            labels = torch.from_numpy(ids[row, column]).to(model.device)
            if likeliest:
                likeliest.record(places[row, column], logits)
            losses.append(functional.cross_entropy(logits, labels, reduction="none").double())
        read()
        examples = np.array([window.example for window in batch])[rows]
        unread.append((examples, encoded.targets[places[rows, columns]], torch.cat(losses)))
        progress.add(sum(map(length, batch)))
    read()
    progress.end()
    return nll
