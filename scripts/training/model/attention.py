"""Which attention kernel a stage runs, and how it separates packed documents.

    flash_attention_2   the package flash-attn is installed and the GPU is of compute capability 8 or more
    varlen              else, on such a GPU: PyTorch's own variable-length flash kernel (torch.nn.attention.varlen)
    sdpa                else; documents are separated by a mask that transformers derives from the position ids

The flash kernels take the offsets of documents instead of a mask. transformers derives them from position ids only for
a single row, so the collator gives them explicitly, for any number of rows, once per batch and without a GPU sync.
"""

from collections.abc import Callable

import torch
from transformers import AttentionInterface
from transformers.utils import is_flash_attn_2_available

from scripts.training.engine.trainer import stack

try:
    from torch.nn.attention.varlen import varlen_attn
except ImportError:  # before torch 2.10
    varlen_attn = None

VARLEN = "varlen"  # without "flash": transformers takes names with it for its own flash functions


def choose_attention() -> str:
    """The name, for `attn_implementation`, of the fastest kernel that this process' device and packages support."""
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0):
        return "sdpa"
    if is_flash_attn_2_available():
        return "flash_attention_2"
    return VARLEN if varlen_attn is not None and torch.version.cuda else "sdpa"


def document_boundaries(position_ids: torch.Tensor) -> dict:
    """The boundaries of the documents in packed rows, as arguments of the flash kernels.

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


def stack_with_boundaries(rows: list[dict[str, torch.Tensor]]) -> dict:
    batch = stack(rows)
    return batch | document_boundaries(batch["position_ids"])


def collator_for(attention: str) -> Callable:
    """The function that collates rows into a batch for this kernel."""
    return stack if attention in ("sdpa", "eager") else stack_with_boundaries


def varlen_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    dropout: float = 0.0,
    scaling: float | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    max_length_q: int | None = None,
    max_length_k: int | None = None,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each document, by PyTorch's variable-length kernel; transformers' attention signature.

    Args:
        query: [rows, heads, length, head size], fp16 or bf16; float32 (outside autocast) is computed in bf16.
        key, value: [rows, key heads, length, head size].

    Returns:
        [rows, length, heads, head size], and no attention weights.
    """
    assert cu_seq_lens_q is not None, "packed rows need their boundaries: use attention.collator_for"
    assert attention_mask is None and not dropout and not kwargs.get("sliding_window"), "not supported by this kernel"
    rows, heads, length, size = query.shape
    half = query.dtype if query.dtype in (torch.float16, torch.bfloat16) else torch.bfloat16
    flat = [tensor.transpose(1, 2).reshape(rows * length, -1, size).to(half) for tensor in (query, key, value)]
    attended = varlen_attn(
        *flat,
        cu_seq_lens_q,
        cu_seq_lens_k,
        max_length_q,
        max_length_k,
        scale=scaling,
        window_size=(-1, 0),  # causal
        enable_gqa=key.shape[1] != heads,
    )
    return attended.view(rows, length, heads, size).to(query.dtype), None


AttentionInterface.register(VARLEN, varlen_attention)
