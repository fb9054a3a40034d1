"""A stage's optimizer, where the Trainer cannot make it itself, and which parameters it trains."""

from collections.abc import Callable
from fnmatch import fnmatch
from typing import NamedTuple

import torch
from torch import nn

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.optimization.muon import MuonCheck, deepspeed_for_muon, make_muon


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
    """The Trainer's `optimizer_cls_and_kwargs`; None where it makes the optimizer by its name."""
    own = OWN.get(settings.optimizer)
    if own is None:
        return None
    return lambda: lambda model: own.make(model, settings, machine.sharding.startswith("zero")), {}
