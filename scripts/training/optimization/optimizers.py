"""The optimizers that the Trainer cannot make by their name."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.optimization.muon import MuonCheck, deepspeed_for_muon, make_muon


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
