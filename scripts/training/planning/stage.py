"""Batch, steps, tokens and intervals of a stage on a machine; and how it is run there."""

from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.optimization.auto_settings import resolve_auto, training_steps
from scripts.training.planning.batch import total_ranks
from scripts.training.planning.candidates import Option
from scripts.training.planning.choice import choose
from scripts.training.planning.memory import GIB, model_states
from scripts.training.planning.parameters import count_parameters


class PlanInputs(NamedTuple):
    """The inputs of a stage's plan."""

    name: str  # the stage's, for errors
    settings: Stage
    machine: Machine
    shape: Shape | None = None  # of the model; without it, or without its `vocab_size`, memory and speed are left out
    rows: int | None = None  # packed training rows, None before they are packed
    validation_rows: int | None = None
    no_rope_layers: tuple[int, ...] = ()
    trained_tokens: float | None = None  # of the base

    @property
    def known_shape(self) -> Shape | None:
        return self.shape if self.shape and self.shape.vocab_size else None

    @property
    def resolved(self) -> Stage:
        """The settings with numbers in place of `auto`, where they are known."""
        return resolve_auto(self.settings, count_parameters(self.known_shape) if self.known_shape else None, self.rows)

    @property
    def steps(self) -> int | None:
        settings = self.resolved
        if settings.steps is not None:
            return settings.steps
        if self.rows is None or settings.global_batch == "auto":
            return None
        return training_steps(settings, self.rows)


def least_memory(inputs: PlanInputs) -> None:
    """Check without a trace, at once, that the model states and one copy of the logits fit.

    Only for a machine file without `auto`, whose choice needs the trace.

    Raises:
        UserError: it cannot; the table says what would.
    """
    machine, shape, settings = inputs.machine, inputs.known_shape, inputs.resolved
    if shape is None or "auto" in (machine.sharding, machine.micro_batch, settings.global_batch):
        return
    states = model_states(shape, settings, machine, list(inputs.no_rope_layers))
    least = sum(states[:3])
    limit = machine.gpu_memory_gib if machine.gpus else machine.host_memory_gib
    host = states.host if machine.gpus else 0
    if machine.gpus and not machine.liger:
        rows = min(machine.micro_batch, settings.global_batch // total_ranks(machine) or 1)
        least += 4 * shape.vocab_size * rows * settings.sequence_length
    if (limit and least > limit * GIB) or (machine.host_memory_gib and host > machine.host_memory_gib * GIB):
        choose_option(inputs)
        raise UserError(  # `choose` found an option that fits: closed form and trace disagree
            f"training.train.{inputs.name}: model states take {least / GIB:.1f} GiB per process,"
            f" the machine has {limit}"
        )


def choose_option(inputs: PlanInputs) -> Option | None:
    """Sharding, offload and micro-batch, chosen or checked by a trace; None without a shape.

    Raises:
        UserError: nothing that the machine file allows fits; the table says what would.
    """
    settings, steps = inputs.resolved, inputs.steps
    if inputs.known_shape is None or settings.global_batch == "auto":
        return None
    tokens = steps and steps * settings.global_batch * settings.sequence_length
    return choose(inputs.name, settings, inputs.known_shape, inputs.machine, list(inputs.no_rope_layers), tokens)
