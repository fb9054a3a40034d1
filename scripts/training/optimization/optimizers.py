"""What a stage says of its optimization: optimizer, parameter groups, schedule, numbers for `auto`, what is trained."""

import logging
from fnmatch import fnmatch
from pathlib import Path

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from scripts.common.cli import UserError
from scripts.training.model.loading import base_of
from scripts.training.optimization.automatic import resolved
from scripts.training.optimization.muon import make_muon


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


def factory(stage: dict, machine: dict):
    """The Trainer's `optimizer_cls_and_kwargs`: None where the Trainer makes the optimizer by itself."""
    if stage["optimizer"] != "muon":
        return None
    return lambda: lambda model: make_muon(model, stage, machine["sharding"].startswith("zero")), {}


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
