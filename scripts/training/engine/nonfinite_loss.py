"""Which documents caused a step's loss, if that loss is not finite.

Rows are identified by their content, once a step has failed: so no row number has to travel with every batch through
collator, prefetching and ranks, and it works for any order of a sampler.
"""

import math

import numpy as np
import torch
from transformers import Trainer

from scripts.tokens.packing.shards import Shards


def find_rows(shards: Shards, tokens: np.ndarray) -> list[int]:
    """The numbers of the rows of `shards` that hold `tokens`, [rows, length]; of equal rows the first."""
    numbers = []
    for row in tokens:
        candidates = np.flatnonzero((shards.tokens[:, :16] == row[:16]).all(1))
        numbers += [int(index) for index in candidates if (shards.tokens[index] == row).all()][:1]
    return numbers


class PassRecordingTrainer(Trainer):
    """A Trainer that records the passes of the current step.

    Attributes:
        passes: (input_ids [rows, length], loss) of each pass of the step on this rank; cleared at its begin by
            scripts/training/engine/callbacks.py.
        grad_norm: of the newest step, before clipping; None before the first.
    """

    def __init__(self, *args, **kwargs):
        self.passes, self.grad_norm = [], None
        super().__init__(*args, **kwargs)

    def training_step(self, model, inputs, num_items_in_batch=None):
        tokens = inputs["input_ids"]
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.passes.append((tokens, loss.detach()))
        return loss

    def _get_grad_norm(self, model, grad_norm=None):
        # callbacks get the norm only with the logs, which a stage may write every tenth step
        self.grad_norm = super()._get_grad_norm(model, grad_norm)
        return self.grad_norm

    def nonfinite(self) -> torch.Tensor:
        """bool [2] on the device: whether a loss of this rank's step is not finite, and whether its gradient norm."""
        losses = torch.stack([loss.float() for _, loss in self.passes])
        norm = torch.as_tensor(0.0 if self.grad_norm is None else self.grad_norm, device=losses.device)
        # of a tensor that FSDP2 shards, the norm is the same on all ranks
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        return torch.stack([~losses.isfinite().all(), ~norm.float().isfinite()])

    def suspect_documents(self, shards: Shards) -> list[str]:
        """Ids of the documents in this rank's passes whose loss is not finite; of all passes if each loss is finite.

        Of unpacked rows nothing is known: they are no rows of the shards.
        """
        if not self.train_dataset.packing:
            return []
        bad = [tokens for tokens, loss in self.passes if not math.isfinite(loss.item())]
        suspects = bad or [tokens for tokens, _ in self.passes]
        rows = torch.cat([tokens.reshape(-1, shards.length) for tokens in suspects]).cpu().numpy()
        return list(dict.fromkeys(name for row in find_rows(shards, rows) for name in shards.documents(row)))
