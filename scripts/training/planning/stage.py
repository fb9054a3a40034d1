"""What a stage does on a machine whatever its size in memory: batch, steps, tokens, intervals."""

from typing import NamedTuple

from scripts.common.cli import UserError
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.optimization.auto_settings import resolve_auto, training_steps
from scripts.training.planning.batch import total_ranks
from scripts.training.planning.choice import choose
from scripts.training.planning.memory import GIB, model_states
from scripts.training.planning.options import Option
from scripts.training.planning.parameters import count_parameters


class Given(NamedTuple):
    """What a stage's plan starts from."""

    name: str  # the stage's, for errors
    settings: Stage
    machine: Machine
    shape: Shape | None = None  # of the model; without it, or without its `vocab_size`, memory and speed are left out
    rows: int | None = None  # packed training rows, None before they are packed
    validation_rows: int | None = None
    no_rope_layers: tuple[int, ...] = ()
    trained_tokens: float | None = None  # of the base

    @property
    def known(self) -> Shape | None:
        return self.shape if self.shape and self.shape.vocab_size else None

    @property
    def resolved(self) -> Stage:
        """The settings with numbers in place of `auto`, where they are known."""
        return resolve_auto(self.settings, count_parameters(self.known) if self.known else None, self.rows)

    @property
    def steps(self) -> int | None:
        settings = self.resolved
        if settings.steps is not None:
            return settings.steps
        if self.rows is None or settings.global_batch == "auto":
            return None
        return training_steps(settings, self.rows)


def least_memory(given: Given) -> None:
    """Check, in no time and without a trace, that the stage can fit at all: its model states, and its logits once.

    Only for a machine file without `auto`, whose choice needs the trace.

    Raises:
        UserError: it cannot; the table says what would.
    """
    machine, shape, settings = given.machine, given.known, given.resolved
    if shape is None or "auto" in (machine.sharding, machine.micro_batch, settings.global_batch):
        return
    states = model_states(shape, settings, machine, list(given.no_rope_layers))
    least = sum(states[:3])
    limit = machine.gpu_memory_gib if machine.gpus else machine.host_memory_gib
    host = states.host if machine.gpus else 0
    if machine.gpus and not machine.liger:
        rows = min(machine.micro_batch, settings.global_batch // total_ranks(machine) or 1)
        least += 4 * shape.vocab_size * rows * settings.sequence_length
    if (limit and least > limit * GIB) or (machine.host_memory_gib and host > machine.host_memory_gib * GIB):
        chosen(given)
        raise UserError(  # the trace found room after all: closed form and trace disagree
            f"training.train.{given.name}: model states take {least / GIB:.1f} GiB per process, the machine has {limit}"
        )


def chosen(given: Given) -> Option | None:
    """How the stage is run, traced: sharding, offload and micro-batch chosen or checked; None without a shape.

    Raises:
        UserError: nothing that the machine file allows fits; the table says what would.
    """
    settings, steps = given.resolved, given.steps
    if given.known is None or settings.global_batch == "auto":
        return None
    tokens = steps and steps * settings.global_batch * settings.sequence_length
    return choose(given.name, settings, given.known, given.machine, list(given.no_rope_layers), tokens)
