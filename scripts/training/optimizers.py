"""What a stage says of its optimization: optimizer, parameter groups, schedule, numbers for `auto`, what is trained.

Muon moves the matrices of the hidden layers; AdamW moves embeddings, head, norms and biases. Both are one optimizer, so
that the Trainer, its schedule and its checkpoints handle them as one. The step of a matrix is scaled by
0.2 * sqrt(max(rows, columns)) (`match_rms_adamw`; Liu et al. 2025, "Muon is Scalable for LLM Training"): its entries
then move as much as under AdamW, and one learning rate serves both.
"""

import logging
from fnmatch import fnmatch
from pathlib import Path

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainerCallback
from transformers.trainer_pt_utils import get_parameter_names

from scripts.common.cli import UserError
from scripts.training.automatic import resolved
from scripts.training.models import base_of

# transformers' rule: no weight decay on biases and norms
UNDECAYED = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
MOMENTUM = 0.95


def with_numbers(stage: dict, origin: Path, rows: int) -> dict:
    """`stage` with numbers for what is `auto`, from the model in `origin` and the `rows` of packed training data."""
    if "auto" not in (stage["learning_rate"], stage["global_batch"]):
        return stage
    with torch.device("meta"):  # shapes without memory
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(base_of(origin) or origin))
    stage = resolved(stage, model.num_parameters(), rows)
    logging.info(f"auto: learning rate {stage['learning_rate']}, global batch {stage['global_batch']} rows")
    return stage


def freeze(model: nn.Module, patterns: list[str] | str) -> list[str]:
    """Train only the parameters whose names match one of `patterns` (fnmatch; "all" for all); their names.

    Raises:
        UserError: a pattern matches no parameter.
    """
    names = [name for name, _ in model.named_parameters()]
    if patterns == "all":
        return names
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise UserError(f"trainable: {pattern!r} matches no parameter; they are named as {names[1]!r}")
    trained = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    return trained


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


def factory(stage: dict, machine: dict):
    """The Trainer's `optimizer_cls_and_kwargs`: None where the Trainer makes the optimizer by itself.

    Raises:
        UserError: an optimizer that cannot run as the machine file says.
    """
    sharding = machine["sharding"]
    if stage["optimizer"] == "adamw_8bit" and sharding != "none":
        raise UserError(
            f"optimizer: adamw_8bit cannot run with `sharding: {sharding}` in the machine file; use `none`, or adamw"
        )
    if stage["optimizer"] != "muon":
        return None
    return lambda: lambda model: make_muon(model, stage, sharding.startswith("zero")), {}


def deepspeed_for(stage: dict, settings: dict | None) -> dict | None:
    """DeepSpeed's settings with what Muon needs."""
    if settings is None or stage["optimizer"] != "muon":
        return settings
    # a scattered gradient could not be orthogonalized; and the AdamW beside Muon is not DeepSpeed's own for the CPU
    zero = {**settings["zero_optimization"], "reduce_scatter": False}
    return {**settings, "zero_optimization": zero, "zero_force_ds_cpu_optimizer": False}


def optimizer_arguments(stage: dict, machine: dict, steps: int) -> dict:
    """The TrainingArguments that follow from optimizer and schedule.

    Args:
        steps: optimizer steps of the stage.
    """
    chosen = {"max_grad_norm": stage["clip"]}
    if stage["optimizer"] == "adamw_8bit":
        chosen["optim"] = "adamw_8bit"
    if stage["optimizer"] == "muon":
        # Clipping would come after the orthogonalization under ZeRO, and Muon's step does not depend on the gradient's
        # length: it is off in every mode. An infinite limit clips nothing and still has the norm logged.
        chosen["max_grad_norm"] = 0.0 if machine["sharding"].startswith("zero") else float("inf")
    names = {"constant": "constant_with_warmup", "warmup-stable-decay": "warmup_stable_decay"}
    chosen["lr_scheduler_type"] = names.get(stage["scheduler"], stage["scheduler"])
    if stage["scheduler"] == "warmup-stable-decay":
        # 1 - sqrt over the last fifth (Hägele et al. 2024)
        decay = {"num_decay_steps": max(1, round(stage["decay_share"] * steps)), "decay_type": "1-sqrt"}
        chosen["lr_scheduler_kwargs"] = decay
    # transformers takes a number below 1 for a share of the steps
    chosen["warmup_steps"] = stage.get("warmup_share", stage["warmup_steps"])
    if stage["keep_best"]:
        chosen |= {"metric_for_best_model": "eval_loss", "greater_is_better": False}
    return chosen


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
