"""transformers' Trainer on packed rows: documents separated by position ids, validation loss per token."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from accelerate.data_loader import SeedableRandomSampler
from transformers import Trainer, TrainerState
from transformers.trainer_utils import EvalLoopOutput

from scripts.tokens.packing.shards import Shards
from scripts.training.model.loading import ONE_FILE


def validation_losses(state: TrainerState) -> list[float]:
    return [entry["eval_loss"] for entry in state.log_history if "eval_loss" in entry]


def last_validation_loss(state: TrainerState) -> float | None:
    """The validation loss of the weights after the last step, if they were evaluated."""
    last = next((entry for entry in reversed(state.log_history) if "eval_loss" in entry), None)
    if last and last["step"] == state.global_step:
        return last["eval_loss"]
    return None


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
        if hasattr(norm, "full_tensor"):
            norm = norm.full_tensor()
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
        return list(dict.fromkeys(chain.from_iterable(map(shards.documents, find_rows(shards, rows)))))


class Rows(torch.utils.data.Dataset):
    """The first `rows` rows of a shard as the model takes them: input_ids, position_ids, labels, each int64 [length].

    Their number is filled up to a multiple of `multiple` by copies of the first row without targets. Otherwise
    accelerate would repeat rows until all ranks have equally many batches, and the loss would depend on the ranks.

    There must be no attention mask: only without one does transformers read the document boundaries from the position
    ids. With an all-ones mask documents would attend to each other without a warning.

    Args:
        packing: whether a row is a row of the shard; else it is one piece of a document, and not padded yet.
    """

    def __init__(self, shards: Shards, packing: bool = True, rows: int | None = None, multiple: int = 1):
        known = len(shards) if packing else len(shards.pieces)
        self.shards, self.packing, self.rows, self.multiple = shards, packing, min(rows or known, known), multiple

    def __len__(self) -> int:
        return -(-self.rows // self.multiple) * self.multiple

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        filling = index >= self.rows
        number, piece = 0 if filling else index, slice(None)
        if not self.packing:
            number, start, length, _ = (int(value) for value in self.shards.pieces[number])
            piece = slice(start, start + length)
        row = {name: torch.from_numpy(array[piece]) for name, array in self.shards.row(number).items()}
        if filling:
            return row | {"labels": torch.full_like(row["labels"], -100)}
        return row


class FillingLast(torch.utils.data.Sampler):
    """The rows of a dataset in accelerate's shuffled order, then those that fill up the last batch.

    The order is that of a dataset without filling, so that only the last step of an epoch has filling rows.

    Args:
        epoch: the number of the epoch that begins. It is asked for, as accelerate does not tell the sampler of several
            ranks where a run resumes within an epoch.
    """

    def __init__(self, dataset: Rows, epoch: Callable[[], int]):
        self.dataset, self.epoch = dataset, epoch
        self.shuffled = SeedableRandomSampler(range(dataset.rows))

    def __len__(self) -> int:
        return len(self.dataset)

    def __iter__(self) -> Iterator[int]:
        self.shuffled.set_epoch(self.epoch())
        yield from self.shuffled
        yield from range(self.dataset.rows, len(self.dataset))


def from_first_share(warmup: int, factor: Callable[[int], float], step: int) -> float:
    """The factor of the peak learning rate in a step, counted from 0: in the first of 4 steps of warm-up a quarter."""
    if step < warmup:
        return (step + 1) / warmup
    return factor(step)


class StageTrainer(PassRecordingTrainer):
    """The Trainer with a validation loss that is the mean over all target tokens.

    transformers averages over batches, so a batch with few targets would count as much as one with many.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.model.save_pretrained = partial(self.model.save_pretrained, max_shard_size=ONE_FILE)

    def _get_train_sampler(self, train_dataset=None) -> FillingLast:
        dataset = train_dataset or self.train_dataset
        batch = self.args.train_batch_size * self.args.gradient_accumulation_steps * self.args.world_size
        return FillingLast(dataset, lambda: self.state.global_step * batch // len(dataset))

    def create_scheduler(self, num_training_steps, optimizer=None):
        """transformers' schedule, but the warm-up begins with its first share: at 0 the first step would train
        nothing, of three steps a third."""
        made, scheduler = self.lr_scheduler is None, super().create_scheduler(num_training_steps, optimizer)
        warmup = self.args.get_warmup_steps(num_training_steps)
        if made and warmup:
            factors = [partial(from_first_share, warmup, factor) for factor in scheduler.lr_lambdas]
            self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(scheduler.optimizer, factors)
        return self.lr_scheduler

    def _save(self, output_dir=None, state_dict=None):
        """Save tied weights once, as a single process does: a gathered state dict holds them twice."""
        for name in getattr(self.accelerator.unwrap_model(self.model), "all_tied_weights_keys", {}):
            if state_dict:
                state_dict.pop(name, None)
        super()._save(output_dir, state_dict)

    def load_best(self) -> None:
        """Load the best checkpoint's weights into the model. On all ranks.

        transformers does so by itself only where `save_steps` is a multiple of `eval_steps`.
        """
        assert self.state.best_global_step is not None, "no best checkpoint is known"
        # the saved state holds a path, and the run's folder may have been renamed since (resume_across_code.py)
        self.state.best_model_checkpoint = str(Path(self.args.output_dir) / f"checkpoint-{self.state.best_global_step}")
        self._load_best_model()

    def evaluate_final_weights(self, keep_best: bool) -> float:
        """The validation loss of the weights that are published, which are loaded here if the best ones are.

        Not computed again if the last step was also an evaluation.
        """
        if keep_best:
            self.load_best()
        elif (loss := last_validation_loss(self.state)) is not None:
            return loss
        return self.evaluate()["eval_loss"]

    def evaluation_loop(
        self, dataloader, description, prediction_loss_only=None, ignore_keys=None, metric_key_prefix="eval"
    ):
        model = self._wrap_model(self.model, training=False)
        model.eval()
        sums = torch.zeros(2, dtype=torch.float64, device=self.args.device)  # nats, target tokens
        for batch in dataloader:
            batch = self._prepare_inputs(batch)
            with torch.no_grad(), self.compute_loss_context_manager():
                sums[0] += model(**batch, num_items_in_batch=1, use_cache=False).loss
            sums[1] += (batch["labels"][:, 1:] != -100).sum()
        nats, tokens = self.accelerator.reduce(sums, "sum").tolist()
        metrics = {f"{metric_key_prefix}_loss": nats / tokens}
        return EvalLoopOutput(predictions=None, label_ids=None, metrics=metrics, num_samples=len(dataloader.dataset))
