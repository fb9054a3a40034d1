"""How many processes train together, and how the global batch is divided among them."""

from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine


class Batch(NamedTuple):
    """How a global batch is processed."""

    micro: int  # rows per process and pass
    accumulation: int  # passes per optimizer step


def local_ranks(machine: Machine) -> int:
    """How many processes train together on each host: one per GPU; without GPUs as many as `cpu_ranks`."""
    return machine.gpus or machine.cpu_ranks


def total_ranks(machine: Machine) -> int:
    """How many processes train together, over all hosts."""
    return machine.nodes * local_ranks(machine)


def divide_batch(global_batch: int, micro_batch: int, ranks: int, stage: str) -> Batch:
    """Divide `global_batch` rows among `ranks` processes, at most `micro_batch` rows per process and pass.

    Raises:
        UserError: the global batch is no multiple of the number of processes.
    """
    if global_batch % ranks:
        near = [rows for rows in (global_batch // ranks * ranks, -(-global_batch // ranks) * ranks) if rows]
        raise UserError(
            f"training.train.{stage}.global_batch: {global_batch} is no multiple of {ranks} processes; "
            f"{' or '.join(map(str, near))} would be"
        )
    share = global_batch // ranks
    micro = next(rows for rows in range(min(micro_batch, share), 0, -1) if share % rows == 0)
    return Batch(micro, share // micro)
