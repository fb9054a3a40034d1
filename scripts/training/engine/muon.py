"""Muon (Jordan et al. 2024) for the matrices of the hidden layers, AdamW for embeddings, head, norms and biases.

Both form one optimizer for the Trainer, its schedule and its checkpoints. The step of a matrix is scaled by
0.2 * sqrt(max(rows, columns)) (`match_rms_adamw`; Liu et al. 2025, "Muon is Scalable for LLM Training"): its entries
then move as much as under AdamW, and one learning rate serves both. Selected by `optimizer: muon` of a stage.
"""

import math
from collections.abc import Callable
from itertools import chain

import torch
from torch import nn
from transformers import Trainer, TrainerCallback

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.engine.parameters import full_shape, split_parameters

MOMENTUM = 0.95
EPS = 1e-8  # of AdamW, as torch's default


class MuonAdamW(torch.optim.Optimizer):
    """torch.optim.Muon for the groups with `use_muon`, torch.optim.AdamW for the others, sharing groups and state.
    `groups`: parameter groups with `use_muon`, `lr`, `weight_decay`; `betas`, `eps`: of AdamW."""

    def __init__(self, groups: list[dict], betas: tuple[float, float], eps: float):
        super().__init__(groups, {})
        self.betas, self.eps = betas, eps
        self.parts = []
        muon = [group for group in self.param_groups if group["use_muon"]]
        if muon:
            self.parts.append(torch.optim.Muon(muon, momentum=MOMENTUM, adjust_lr_fn="match_rms_adamw"))
        adamw = [group for group in self.param_groups if not group["use_muon"]]
        if adamw:
            self.parts.append(torch.optim.AdamW(adamw, betas=betas, eps=eps))
        self.share_groups_and_state()

    def share_groups_and_state(self) -> None:
        """Let both optimizers use this one's groups and state, which a scheduler and a checkpoint change."""
        for optimizer in self.parts:
            muon = isinstance(optimizer, torch.optim.Muon)
            optimizer.param_groups = [group for group in self.param_groups if group["use_muon"] is muon]
            optimizer.state = self.state

    def load_state_dict(self, state_dict: dict) -> None:
        super().load_state_dict(state_dict)
        self.share_groups_and_state()

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure else None
        for optimizer in self.parts:
            optimizer.step()
        return loss


def muon_groups(model: nn.Module, settings: Stage, zero: bool) -> list[dict]:
    """Parameter groups, AdamW's first, as the first group's rate is the one that is logged.

    DeepSpeed's Muon scales a step by sqrt(max(1, rows / columns)), so under ZeRO there is one group for each shape; its
    rate compensates for the difference. Weight decay is divided by the same factor, as torch's does not depend on it.
    """
    parts = split_parameters(model)
    rate, decay = settings.learning_rate, settings.weight_decay
    groups = [
        {"params": parts["decayed"], "use_muon": False, "lr": settings.learning_rate, "weight_decay": decay},
        {"params": parts["undecayed"], "use_muon": False, "lr": settings.learning_rate, "weight_decay": 0.0},
    ]
    if zero:
        for shape in sorted({full_shape(parameter) for parameter in parts["muon"]}):
            rows, columns = shape
            factor = 0.2 * max(rows, columns) ** 0.5 / max(1, rows / columns) ** 0.5
            of_shape = [parameter for parameter in parts["muon"] if full_shape(parameter) == shape]
            groups.append({"params": of_shape, "use_muon": True, "lr": rate * factor, "weight_decay": decay / factor})
    else:
        groups.append({"params": parts["muon"], "use_muon": True, "lr": rate, "weight_decay": decay})
    return [group for group in groups if group["params"]]


def make_muon(model: nn.Module, settings: Stage, zero: bool) -> torch.optim.Optimizer:
    """Muon and AdamW for the trained parameters of `model`; under ZeRO DeepSpeed's own, which knows its partitions."""
    groups = muon_groups(model, settings, zero)
    if not any(group["use_muon"] for group in groups):
        raise UserError("optimizer: muon has nothing to do: `trainable` selects no matrix of a hidden layer; use adamw")
    if not zero:
        return MuonAdamW(groups, tuple(settings.betas), EPS)
    from deepspeed.runtime.zero.muon.muon_optimizer import MuonWithAuxAdam

    for index, group in enumerate(groups):
        group["name"] = f"group{index}"
        if group["use_muon"]:
            # the iteration in bfloat16, as torch's; one momentum for all groups, as ZeRO-3 requires
            group |= {"momentum": MOMENTUM, "ns_method": "standard"}
        else:
            group |= {"betas": tuple(settings.betas), "eps": EPS}
        for parameter in group["params"]:
            parameter.use_muon = group["use_muon"]
    return MuonWithAuxAdam(groups)


def muon_factory(settings: Stage, machine: Machine) -> tuple[Callable, dict]:
    """The Trainer's `optimizer_cls_and_kwargs` for Muon."""
    return lambda: lambda model: make_muon(model, settings, machine.sharding.startswith("zero")), {}


def count_gradients_as_they_were(zero) -> None:
    """Let DeepSpeed's gradient norm count the gradients of Muon's matrices as they were before the orthogonalization.

    DeepSpeed orthogonalizes before it takes the norm, which then depends on the shapes of the matrices alone: no alert
    would see a gradient that explodes.

    Args:
        zero: DeepSpeed's ZeRO optimizer, of stage 2 or 3.
    """
    from deepspeed.runtime.zero.muon import original_muon

    update, seen, norms = original_muon.muon_update, [], []

    def noting(grad: torch.Tensor, *arguments, **named) -> torch.Tensor:
        seen.append((tuple(grad.shape), torch.linalg.vector_norm(grad, dtype=torch.float32)))
        return update(grad, *arguments, **named)

    def collected(method: Callable) -> Callable:
        def norm_of_group(*arguments, **named):
            norms.append(method(*arguments, **named))
            return norms[-1]

        return norm_of_group

    def whole_norm(method: Callable) -> Callable:
        def norm_of_all(*arguments, **named):
            norms.clear()
            result = method(*arguments, **named)
            matrices = {(shape, norm.item()) for shape, norm in seen}
            seen.clear()
            ranks = [matrices]
            if torch.distributed.get_world_size() > 1:
                ranks = [None] * torch.distributed.get_world_size()
                torch.distributed.all_gather_object(ranks, matrices)
            squares = [norm**2 for _, norm in set().union(*ranks)]  # a matrix that several ranks share is one
            squares += [float(norm) ** 2 for norm, muon in zip(norms, muon_groups_of(zero), strict=True) if not muon]
            whole = torch.as_tensor(math.sqrt(sum(squares)), dtype=torch.float32, device=norms[0].device)
            if isinstance(result, list):
                return [whole]
            return whole

        return norm_of_all

    original_muon.muon_update = noting
    for name in ("get_grad_norm_direct", "complete_grad_norm_calculation_for_cpu_offload"):
        setattr(zero, name, collected(getattr(zero, name)))
    for name in ("scaled_global_norm", "_get_norm_groups"):  # of stage 2 and of stage 3
        if hasattr(zero, name):
            setattr(zero, name, whole_norm(getattr(zero, name)))


def muon_groups_of(zero) -> list[bool]:
    """Of each of ZeRO's groups of parameters whether Muon updates it."""
    if hasattr(zero, "sub_groups_using_muon"):  # stage 3 divides the optimizer's groups further
        return zero.sub_groups_using_muon
    return [group["use_muon"] for group in zero.optimizer.param_groups]


def count_updated(trainer: Trainer) -> dict[str, int]:
    """How many tensors and parameters Muon and AdamW have updated, read from the optimizer's state after a step."""
    outer = trainer.optimizer.optimizer  # below accelerate's wrapper
    if not trainer.is_deepspeed_enabled:
        groups = []
        for group in outer.param_groups:
            groups.append(([p for p in group["params"] if p in outer.state], group["use_muon"]))
        for members, use_muon in groups:
            assert all(("momentum_buffer" if use_muon else "exp_avg") in outer.state[p] for p in members)
    else:
        inner = outer.optimizer
        assert type(inner).__name__ == "MuonWithAuxAdam", f"DeepSpeed runs {type(inner).__name__}, not Muon"
        if trainer.deepspeed.zero_optimization_stage() == 3:
            groups = list(zip(outer.fp16_groups, muon_groups_of(outer), strict=True))
        else:
            groups = list(zip(outer.bit16_groups, muon_groups_of(outer), strict=True))
        for state in inner.state.values():
            assert ("momentum_buffer" in state) != ("exp_avg" in state)
    muon = list(chain.from_iterable(members for members, use_muon in groups if use_muon))
    adamw = list(chain.from_iterable(members for members, use_muon in groups if not use_muon))
    return count_members({"muon": muon, "adamw": adamw})


def count_members(parameters: dict[str, list[nn.Parameter]]) -> dict[str, int]:
    """{name}_tensors and {name}_parameters for each list of parameters, as summary and metric log hold them."""
    counts = {}
    for name, members in parameters.items():
        counts[f"{name}_tensors"] = len(members)
        counts[f"{name}_parameters"] = sum(torch.Size(full_shape(parameter)).numel() for parameter in members)
    return counts


def deepspeed_for_muon(deepspeed: dict) -> dict:
    """DeepSpeed's settings, changed as Muon requires."""
    # a scattered gradient could not be orthogonalized; and the AdamW beside Muon is not DeepSpeed's own for the CPU
    zero = {**deepspeed["zero_optimization"], "reduce_scatter": False}
    return {**deepspeed, "zero_optimization": zero, "zero_force_ds_cpu_optimizer": False}


class MuonCheck(TrainerCallback):
    """Asserts after the first step that Muon updated each hidden layer's matrices and AdamW all else; logs the counts.

    Some versions of DeepSpeed mark no parameter for Muon under ZeRO-3 and train plain AdamW without a warning.
    Add it only to a stage with `optimizer: muon`, before the callbacks that write the metrics.

    Attributes:
        counts: tensors and parameters updated by Muon and AdamW; empty before the first step.
    """

    def __init__(self, trainer: Trainer):
        self.trainer, self.counts, self.expected = trainer, {}, {}

    def on_train_begin(self, args, state, control, **kwargs):
        parts = split_parameters(self.trainer.model)
        self.expected = count_members({"muon": parts["muon"], "adamw": parts["decayed"] + parts["undecayed"]})
        if self.trainer.is_deepspeed_enabled:
            count_gradients_as_they_were(self.trainer.optimizer.optimizer)

    def on_step_end(self, args, state, control, **kwargs):
        if not self.counts:
            self.counts = count_updated(self.trainer)
            assert self.counts == self.expected, f"updated {self.counts}, expected {self.expected}"

    def on_log(self, args, state, control, logs, **kwargs):
        if "loss" in logs:
            logs.update(self.counts)
