"""Run the attention kernel of a stage on packed rows, and separate their documents.

Which kernel is chosen by scripts/training/model/kernels.py. With sdpa, documents are separated by a mask that
transformers derives from the position ids. The flash kernel takes the offsets of documents instead of a mask.
transformers derives them from position ids only for a single row, so the collator gives them explicitly, for any number
of rows, once per batch and without a GPU sync.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface

from scripts.experiment.settings.training import Stage
from scripts.training.model import kernels
from scripts.training.model.chunked_loss import scored_places
from scripts.training.model.kernels import VARLEN, Choice, architecture


def gpu_capability(gpus: int) -> tuple[int, int] | None:
    """The compute capability of this process' GPU; None if the machine file has no `gpus`, or torch sees none."""
    if gpus and torch.cuda.is_available():
        return torch.cuda.get_device_capability()
    return None


def choose_attention(name: str, settings: Stage, gpus: int, folder: Path) -> str:
    """The name, for `attn_implementation`, of the fastest kernel that this process can run; it is logged.

    Args:
        name: the stage's, for errors.
        gpus: of the machine file.
        folder: of the model that the stage starts from.

    Raises:
        UserError: no kernel is right for the model, or the stage has a target for adapters that the model has not.
    """
    choice = kernels.stage_attention(architecture(folder), name, settings, gpu_capability(gpus))
    log_choice("attention", choice)
    return choice.name


def log_choice(kernel: str, choice: Choice) -> None:
    """Log a kernel; without a GPU there is nothing to choose, and so no line."""
    if choice.reason not in ("no GPU", "needs GPUs"):
        logging.info(f"{kernel}: {choice}")


def document_boundaries(position_ids: torch.Tensor) -> dict:
    """The boundaries of the documents in packed rows, as arguments of the flash kernel.

    Args:
        position_ids: int64 [rows, length], restarting at 0 with each document.

    Returns:
        cu_seq_lens_q and cu_seq_lens_k: int32 [documents + 1], offsets into the concatenated rows, the last one
        their total; max_length_q and max_length_k: tokens of the longest document.
    """
    flat = position_ids.flatten()
    starts = (flat == 0).nonzero().flatten()
    offsets = torch.cat([starts, starts.new_tensor([flat.numel()])]).to(torch.int32)
    longest = int(offsets.diff().max())
    return {"cu_seq_lens_q": offsets, "cu_seq_lens_k": offsets, "max_length_q": longest, "max_length_k": longest}


def stack(rows: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Collate rows into a batch: each tensor [rows, length]. Shorter rows are padded on the right, without targets.

    What is padded continues the last document, so that it is no further one to tell apart; no token sees a later one.
    """
    length = max(len(row["labels"]) for row in rows)
    padded = []
    for row in rows:
        missing = length - len(row["labels"])
        if missing:
            last = int(row["position_ids"][-1])
            row = {
                "input_ids": torch.nn.functional.pad(row["input_ids"], (0, missing)),
                "position_ids": torch.cat([row["position_ids"], torch.arange(last + 1, last + 1 + missing)]),
                "labels": torch.nn.functional.pad(row["labels"], (0, missing), value=-100),
            }
        padded.append(row)
    found = {}
    for name in rows[0]:
        found[name] = torch.stack([row[name] for row in padded])
    return found


def stack_with_boundaries(rows: list[dict[str, torch.Tensor]]) -> dict:
    batch = stack(rows)
    return batch | document_boundaries(batch["position_ids"])


def with_scored(collate: Callable, rows: list[dict[str, torch.Tensor]]) -> dict:
    """A batch with the places that the loss in chunks reads, found while the labels are on the CPU."""
    batch = collate(rows)
    return batch | {"scored": scored_places(batch["labels"])}


def collator_for(attention: str, chunked: bool = False) -> Callable:
    """The function that collates rows into a batch for this kernel. `chunked`: whether the loss is computed in chunks
    (chunked_loss.py)."""
    collate = stack_with_boundaries if attention == VARLEN else stack
    if chunked:
        return partial(with_scored, collate)
    return collate


HALF = (torch.float16, torch.bfloat16)  # what the kernel computes in


def varlen_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    max_length_q: int | None = None,
    max_length_k: int | None = None,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each document, by PyTorch's variable-length kernel; transformers' attention signature.

    Args:
        query: [rows, heads, length, head size], fp16 or bf16; float32 (outside autocast) is computed in bf16.
        key, value: [rows, key heads, length, head size]; values may be smaller, they are padded.
        sliding_window: how many tokens a token sees, with itself; None for all before it.

    Returns:
        [rows, length, heads, head size of the values], and no attention weights.
    """
    assert cu_seq_lens_q is not None, "packed rows need their boundaries: use attention.collator_for"
    assert attention_mask is None and not dropout, "this kernel has neither mask nor dropout"
    rows, heads, length, size = query.shape
    value_size = value.shape[-1]
    if value_size != size:
        value = torch.nn.functional.pad(value, (0, size - value_size))
    half = query.dtype if query.dtype in HALF else torch.bfloat16
    flat = [tensor.transpose(1, 2).reshape(rows * length, -1, size).to(half) for tensor in (query, key, value)]
    attended = varlen_attn(
        *flat,
        cu_seq_lens_q,
        cu_seq_lens_k,
        max_length_q,
        max_length_k,
        scale=scaling,
        window_size=(sliding_window - 1 if sliding_window else -1, 0),  # tokens before its own, and none after it
        enable_gqa=key.shape[1] != heads,
    )
    return attended.view(rows, length, heads, size)[..., :value_size].to(query.dtype), None


AttentionInterface.register(VARLEN, varlen_attention)
