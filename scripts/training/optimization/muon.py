"""Muon (Jordan et al. 2024) for the matrices of the hidden layers, AdamW for embeddings, head, norms and biases.

Both are one optimizer, so that the Trainer, its schedule and its checkpoints handle them as one. The step of a matrix
is scaled by 0.2 * sqrt(max(rows, columns)) (`match_rms_adamw`; Liu et al. 2025, "Muon is Scalable for LLM Training"):
its entries then move as much as under AdamW, and one learning rate serves both. Chosen by `optimizer: muon` of a stage.
"""

import torch
from torch import nn
from transformers import Trainer, TrainerCallback
from transformers.trainer_pt_utils import get_parameter_names

from scripts.common.cli import UserError

# transformers' rule: no weight decay on biases and norms
UNDECAYED = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
MOMENTUM = 0.95


def shape_of(parameter: nn.Parameter) -> tuple[int, ...]:
    """The shape of the whole tensor; under ZeRO-3 each process holds a flat part of it."""
    return tuple(getattr(parameter, "ds_shape", parameter.shape))


def split(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """The trained parameters: `muon` (matrices of the hidden layers), `decayed` and `undecayed` (AdamW)."""
    ends = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
    decayed = set(get_parameter_names(model, [nn.LayerNorm], UNDECAYED))
    parts = {"muon": [], "decayed": [], "undecayed": []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            hidden = len(shape_of(parameter)) == 2 and not any(parameter is end for end in ends)
            parts["muon" if hidden else "decayed" if name in decayed else "undecayed"].append(parameter)
    return parts


class MuonAdamW(torch.optim.Optimizer):
    """torch.optim.Muon for the groups with `use_muon`, torch.optim.AdamW for the others, sharing groups and state.

    Args:
        groups: parameter groups with `use_muon`, `lr`, `weight_decay`.
        betas, eps: of AdamW.
    """

    def __init__(self, groups: list[dict], betas: tuple[float, float], eps: float):
        super().__init__(groups, {})
        self.betas, self.eps = betas, eps
        self.parts = []
        if muon := [group for group in self.param_groups if group["use_muon"]]:
            self.parts.append(torch.optim.Muon(muon, momentum=MOMENTUM, adjust_lr_fn="match_rms_adamw"))
        if adamw := [group for group in self.param_groups if not group["use_muon"]]:
            self.parts.append(torch.optim.AdamW(adamw, betas=betas, eps=eps))
        self.share()

    def share(self) -> None:
        """Give the two the groups and the state of the whole, which a scheduler and a checkpoint know."""
        for part in self.parts:
            muon = isinstance(part, torch.optim.Muon)
            part.param_groups = [group for group in self.param_groups if group["use_muon"] is muon]
            part.state = self.state

    def load_state_dict(self, state_dict: dict) -> None:
        super().load_state_dict(state_dict)
        self.share()

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure else None
        for part in self.parts:
            part.step()
        return loss


def muon_groups(model: nn.Module, stage: dict, zero: bool) -> list[dict]:
    """Parameter groups, AdamW's first: the rate of the first group is the one that is logged.

    DeepSpeed's Muon scales a step by sqrt(max(1, rows / columns)), so under ZeRO there is one group for each shape; its
    rate makes up for the difference; its weight decay is divided by the same factor, as torch's does not depend on it.
    """
    parts = split(model)
    rate, decay = stage.get("muon_learning_rate", stage["learning_rate"]), stage["weight_decay"]
    groups = [
        {"params": parts["decayed"], "use_muon": False, "lr": stage["learning_rate"], "weight_decay": decay},
        {"params": parts["undecayed"], "use_muon": False, "lr": stage["learning_rate"], "weight_decay": 0.0},
    ]
    if zero:
        for shape in sorted({shape_of(parameter) for parameter in parts["muon"]}):
            rows, columns = shape
            factor = 0.2 * max(rows, columns) ** 0.5 / max(1, rows / columns) ** 0.5
            same = [parameter for parameter in parts["muon"] if shape_of(parameter) == shape]
            groups.append({"params": same, "use_muon": True, "lr": rate * factor, "weight_decay": decay / factor})
    else:
        groups.append({"params": parts["muon"], "use_muon": True, "lr": rate, "weight_decay": decay})
    return [group for group in groups if group["params"]]


def make_muon(model: nn.Module, stage: dict, zero: bool) -> torch.optim.Optimizer:
    """Muon and AdamW for the trained parameters of `model`; under ZeRO DeepSpeed's own, which knows its partitions."""
    groups = muon_groups(model, stage, zero)
    if not any(group["use_muon"] for group in groups):
        raise UserError("optimizer: muon has nothing to do, `trainable` holds no matrix of a hidden layer; use adamw")
    if not zero:
        return MuonAdamW(groups, tuple(stage["betas"]), stage["eps"])
    from deepspeed.runtime.zero.muon.muon_optimizer import MuonWithAuxAdam

    for index, group in enumerate(groups):
        group["name"] = f"group{index}"
        if group["use_muon"]:
            # the iteration in bfloat16, as torch's; the momentum is one for all groups, ZeRO-3 asks for it
            group |= {"momentum": MOMENTUM, "ns_method": "standard"}
        else:
            group |= {"betas": tuple(stage["betas"]), "eps": stage["eps"]}
        for parameter in group["params"]:
            parameter.use_muon = group["use_muon"]
    return MuonWithAuxAdam(groups)


def updated(trainer: Trainer) -> dict[str, int]:
    """Tensors and parameters that Muon and AdamW have moved, read from the optimizer's state after a step."""
    outer = trainer.optimizer.optimizer  # below accelerate's wrapper
    if not trainer.is_deepspeed_enabled:
        groups = [([p for p in group["params"] if p in outer.state], group["use_muon"]) for group in outer.param_groups]
        for members, muon in groups:
            assert all(("momentum_buffer" if muon else "exp_avg") in outer.state[p] for p in members)
    else:
        zero3 = trainer.deepspeed.zero_optimization_stage() == 3
        inner = outer.optimizer
        assert type(inner).__name__ == "MuonWithAuxAdam", f"DeepSpeed runs {type(inner).__name__}, not Muon"
        if zero3:
            groups = list(zip(outer.fp16_groups, outer.sub_groups_using_muon, strict=True))
        else:
            groups = [
                (members, group["use_muon"])
                for members, group in zip(outer.bit16_groups, inner.param_groups, strict=True)
            ]
        for state in inner.state.values():
            assert ("momentum_buffer" in state) != ("exp_avg" in state)
    counts = {}
    for name, wanted in (("muon", True), ("adamw", False)):
        shapes = [shape_of(p) for members, muon in groups if bool(muon) is wanted for p in members]
        counts[f"{name}_tensors"] = len(shapes)
        counts[f"{name}_parameters"] = sum(torch.Size(shape).numel() for shape in shapes)
    return counts


class MuonRan(TrainerCallback):
    """Asserts after the first step that Muon moved each hidden layer's matrices and AdamW all else; logs counts.

    Args:
        asked: whether the stage says `optimizer: muon`; otherwise there is nothing to count.
    """

    def __init__(self, asked: bool):
        self.asked, self.trainer, self.counts, self.expected = asked, None, {}, {}

    def on_step_begin(self, args, state, control, **kwargs):
        if self.asked and not self.expected:
            parts = split(self.trainer.model)
            sides = {"muon": parts["muon"], "adamw": parts["decayed"] + parts["undecayed"]}
            for name, members in sides.items():
                self.expected[f"{name}_tensors"] = len(members)
                self.expected[f"{name}_parameters"] = sum(torch.Size(shape_of(p)).numel() for p in members)

    def on_step_end(self, args, state, control, **kwargs):
        if self.asked and not self.counts:
            self.counts = updated(self.trainer)
            assert self.counts == self.expected, f"moved {self.counts}, expected {self.expected}"

    def on_log(self, args, state, control, logs, **kwargs):
        if "loss" in logs:
            logs.update(self.counts)
