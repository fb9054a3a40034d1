"""The loss of a causal language model in chunks of tokens, so that the logits of a whole batch never exist.

    use_chunked_loss(model, "zero2", architecture(folder).own_loss, compiled=True)
    loss = model(**batch, num_items_in_batch=targets).loss

The logits of 16,384 tokens over 152,000 words are 10 GB in float32, and training makes three tensors of that size. Here
only tokens with a target pass the head, CHUNK at a time, and the gradients of a chunk are computed beside its loss, as
in Liger's fused loss, so that nothing is computed twice. Compiled, the softmax and its gradient are two
readings of the logits in bf16, without a copy in float32. torch's `linear_cross_entropy` does so too, but returns the
loss of a bf16 model in bf16, with three digits.
"""

from functools import cache, partial
from types import MethodType

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from transformers.trainer_utils import unwrap_peft_model

from scripts.training.model.kernels import CHUNK, COMPILED_CHUNK, UNSHARDED_WEIGHTS

IGNORED = -100  # the label of a token that is no target


def loss_of_chunk(
    inputs: torch.Tensor, matrix: torch.Tensor, targets: torch.Tensor, train: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The sum of -log p(target) of some tokens in float32, and the gradient of their logits in the type of `inputs`.

    Nothing else in training moves as much memory. So the logits are freed once they are in float32, and the gradient
    comes out of the exponential in its own type.

    Args:
        inputs: of the head, [tokens, width].
        matrix: of the head, [words, width].
        targets: int64 [tokens].
        train: whether to compute the gradient.
    """
    log_p = torch.log_softmax((inputs @ matrix.T).float(), -1)
    each = torch.arange(len(targets), device=targets.device)
    of_target = log_p[each, targets]
    loss = -of_target.sum()
    if not train:
        return loss, None
    if inputs.is_cuda:
        gradient = torch.exp(log_p, out=torch.empty_like(log_p, dtype=inputs.dtype))
    else:  # a CPU would compute a float32 copy for that
        gradient = log_p.exp_().to(inputs.dtype)
    gradient[each, targets] = torch.expm1(of_target).to(gradient.dtype)  # p, and p - 1 at the target
    return loss, gradient


def loss_of_logits(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same sum and gradient from the logits, [tokens, words], as the compiler fuses it: each value is float32 while
    it is in a register, and none is written as such."""
    values = logits.float()
    log_sum = torch.logsumexp(values, -1, keepdim=True)
    loss = (log_sum - values.gather(1, targets[:, None])).sum()
    is_target = torch.arange(values.shape[1], device=values.device)[None, :] == targets[:, None]
    gradient = torch.where(is_target, torch.expm1(values - log_sum), torch.exp(values - log_sum))
    return loss, gradient.to(logits.dtype)


@cache
def compiled_loss():
    """`loss_of_logits`, compiled for chunks of one size."""
    return torch.compile(loss_of_logits, dynamic=False)


def add_product(total: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> None:
    """Add left @ right to the float32 matrix `total`; a GPU rounds no product of bf16 matrices to bf16 before."""
    if left.dtype == total.dtype:
        total.addmm_(left, right)
    elif left.is_cuda:
        torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
    else:
        total += left @ right


class SummedLoss(torch.autograd.Function):
    """The sum of -log p(target), and its gradients, from the inputs and the weight of the head."""

    @staticmethod
    def forward(ctx, hidden, weight, targets, dtype: torch.dtype, train: bool, compiled: bool):
        """Multiply matrices in `dtype`; all else, sums over chunks among it, is float32.

        Args:
            hidden: [tokens, width].
            weight: [words, width].
            targets: int64 [tokens].
            train: whether to compute gradients.
            compiled: whether to compile the loss of whole chunks; the last one has a length of its own.
        """
        total = torch.zeros((), dtype=torch.float32, device=hidden.device)
        matrix = weight.to(dtype)
        hidden_gradient = weight_gradient = None
        if train:
            hidden_gradient = torch.empty_like(hidden)
        if train and weight.requires_grad:
            weight_gradient = torch.zeros_like(weight, dtype=torch.float32)
        start = 0
        while start < len(targets):
            fused = compiled and train and len(targets) - start >= COMPILED_CHUNK
            chunk = slice(start, start + (COMPILED_CHUNK if fused else CHUNK))
            start = chunk.stop
            inputs = hidden[chunk].to(dtype)
            if fused:
                loss, gradient = compiled_loss()(inputs @ matrix.T, targets[chunk])
            else:
                loss, gradient = loss_of_chunk(inputs, matrix, targets[chunk], train)
            total += loss
            if not train:
                continue
            hidden_gradient[chunk] = gradient @ matrix
            if weight_gradient is not None:
                add_product(weight_gradient, gradient.T, inputs)
            del gradient  # before the next one is made
        ctx.gradients = hidden_gradient, None if weight_gradient is None else weight_gradient.to(weight.dtype)
        return total

    @staticmethod
    def backward(ctx, factor):
        """The gradients times that of the sum. They are changed in place: this runs once."""
        hidden, weight = ctx.gradients
        del ctx.gradients
        return hidden.mul_(factor), None if weight is None else weight.mul_(factor), None, None, None, None


def scored_places(labels: torch.Tensor) -> torch.Tensor:
    """int64 [targets]: the places in the flattened batch right before each target. `labels`: int64 [rows, length]. On a
    GPU the host waits for it."""
    return nn.functional.pad(labels[:, 1:] != IGNORED, (0, 1)).flatten().nonzero().flatten()


def forward(
    model: PreTrainedModel,
    labels: torch.Tensor,
    num_items_in_batch: int | torch.Tensor = 1,
    compiled: bool = False,
    scored: torch.Tensor | None = None,
    **inputs,
):
    """The forward pass of `model` up to its last hidden states, and the loss from these.

    Args:
        labels: int64 [rows, length], IGNORED where there is no target.
        num_items_in_batch: targets of the whole step, by which the sum is divided.
        compiled: whether to compile the loss.
        scored: `scored_places` of the labels, if they are known already.
        inputs: further arguments of the model, `input_ids` among them.

    Returns:
        with the loss in float32, and without logits.
    """
    hidden = model.base_model(**inputs).last_hidden_state.flatten(0, 1)
    if scored is None:
        scored = scored_places(labels)
    weight = model.get_output_embeddings().weight
    dtype = weight.dtype
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    # a place is never the last of its row, so the next label is of the same row
    targets = labels.flatten()[scored + 1]
    total = SummedLoss.apply(hidden[scored], weight, targets, dtype, torch.is_grad_enabled(), compiled)
    return CausalLMOutput(loss=total / num_items_in_batch)


def own_loss(model: PreTrainedModel, batch: dict[str, torch.Tensor]) -> str:
    """Why the loss of a model is not that of `forward`, tried on a batch with labels; empty if it is."""
    if not is_plain(model.get_output_embeddings()):
        return "its head is not a plain matrix"
    targets = int((batch["labels"][:, 1:] != IGNORED).sum())
    with torch.no_grad():
        expected = model(**batch, use_cache=False).loss
        try:
            loss = forward(model, **batch, num_items_in_batch=targets, use_cache=False).loss
        except Exception as error:
            return f"it fails with {type(error).__name__}: {(str(error) or 'no message').splitlines()[0]}"
    if abs(loss - expected) < 1e-3:
        return ""
    return f"it is {loss:.4f} and the model's own {expected:.4f}"


def is_plain(head: nn.Module | None) -> bool:
    """Whether a head is a matrix and nothing else: without bias, adapter or quantized weights."""
    return type(head) is nn.Linear and head.bias is None


def use_chunked_loss(model: PreTrainedModel, sharding: str, own: str, compiled: bool = False) -> bool:
    """Let `model` (also below peft's adapters) compute its loss in chunks from here on, where that is right.

    Args:
        sharding: of the machine file; where weights are sharded, the head's is whole only within its own forward pass.
        own: why the model must compute its loss itself; empty if it need not.
        compiled: whether to compile it.
    """
    inner = unwrap_peft_model(model)
    if sharding not in UNSHARDED_WEIGHTS or own or not is_plain(inner.get_output_embeddings()):
        return False
    inner.forward = MethodType(partial(forward, compiled=compiled), inner)
    return True
