"""A stage's optimizer, schedule, numbers for `auto`, and which parameters it trains."""

import logging
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from scripts.common.errors import UserError
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.model.loading import adapter_base
from scripts.training.optimization.auto_settings import resolve_auto
from scripts.training.optimization.muon import MuonCheck, deepspeed_for_muon, make_muon
from scripts.training.planning.schedule import intervals


def resolve_auto_for_model(settings: Stage, origin: Path, rows: int) -> Stage:
    """`settings` with numbers in place of `auto`.

    Args:
        origin: folder of the model that the stage starts from.
        rows: packed training rows.
    """
    if "auto" not in (settings.learning_rate, settings.global_batch):
        return settings
    with torch.device("meta"):  # shapes without memory
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(adapter_base(origin) or origin))
    settings = resolve_auto(settings, model.num_parameters(), rows)
    logging.info(f"auto: learning rate {settings.learning_rate}, global batch {settings.global_batch} rows")
    return settings


def freeze_others(model: nn.Module, patterns: list[str]) -> list[str]:
    """Train only the parameters whose names match one of `patterns` (fnmatch); returns these names.

    Raises:
        UserError: a pattern matches no parameter.
    """
    names = [name for name, _ in model.named_parameters()]
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in names):
            raise UserError(f"trainable: {pattern!r} matches no parameter; an example of a name: {names[1]!r}")
    trained = [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    return trained


class OwnOptimizer(NamedTuple):
    """An optimizer that the Trainer cannot make.

    Attributes:
        make: (model, settings of the stage, whether ZeRO divides it) → the optimizer.
        deepspeed: DeepSpeed's settings → those that it needs.
        check: a callback, made with the trainer, that asserts what it has updated and holds the `counts`.
    """

    make: Callable[[nn.Module, Stage, bool], torch.optim.Optimizer]
    deepspeed: Callable[[dict], dict]
    check: type[MuonCheck]


OWN = {"muon": OwnOptimizer(make_muon, deepspeed_for_muon, MuonCheck)}


def optimizer_factory(settings: Stage, machine: Machine) -> tuple[Callable, dict] | None:
    """The Trainer's `optimizer_cls_and_kwargs`; None where the Trainer makes the optimizer itself."""
    own = OWN.get(settings.optimizer)
    if own is None:
        return None
    return lambda: lambda model: own.make(model, settings, machine.sharding.startswith("zero")), {}


def optimizer_arguments(settings: Stage, machine: Machine, steps: int) -> dict:
    """The TrainingArguments that follow from optimizer and schedule.

    Args:
        steps: optimizer steps of the stage.
    """
    arguments, optimizer = {"max_grad_norm": settings.clip}, OPTIMIZERS[settings.optimizer]
    if optimizer.optim:
        arguments["optim"] = optimizer.optim
    if not optimizer.clips:
        # Under ZeRO clipping would come after Muon's orthogonalization: it is off in every mode. An infinite limit
        # clips nothing, and the norm is still logged.
        arguments["max_grad_norm"] = 0.0 if machine.sharding.startswith("zero") else float("inf")
    names = {"constant": "constant_with_warmup", "warmup-stable-decay": "warmup_stable_decay"}
    arguments["lr_scheduler_type"] = names.get(settings.scheduler, settings.scheduler)
    if settings.scheduler == "warmup-stable-decay":
        # 1 - sqrt over the last fifth (Hägele et al. 2024)
        decay = {"num_decay_steps": max(1, round(settings.decay_share * steps)), "decay_type": "1-sqrt"}
        arguments["lr_scheduler_kwargs"] = decay
    arguments["warmup_steps"] = intervals(settings, steps).warmup
    if settings.keep_best:
        arguments |= {"metric_for_best_model": "eval_loss", "greater_is_better": False}
    return arguments
