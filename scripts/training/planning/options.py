"""The ways to run a stage that a machine file leaves open, and what each takes: memory, speed.

options("sft", [(settings, machine) for machine in machines(settings, machine)], shape)

choice.py chooses one of them.
"""

from typing import NamedTuple

from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.planning.activations import measure
from scripts.training.planning.batch import Batch, divide_batch, total_ranks
from scripts.training.planning.budget import Budget, passes, stage_budget
from scripts.training.planning.memory import GIB
from scripts.training.planning.speed import Speed, stage_speed

MICRO_BATCHES = (1, 2, 4, 8, 16)
SHARDINGS = ("none", "zero1", "zero2", "fsdp2", "zero3")  # what each GPU holds whole, most first
OFFLOADABLE = ("zero2", "zero3")


class Option(NamedTuple):
    """One way to run a stage."""

    settings: Stage
    machine: Machine  # without `auto`
    batch: Batch
    budget: Budget
    speed: Speed | None
    vocabulary: int

    def missing(self) -> float:
        """Bytes by which the fuller of GPU and host is too small; 0 where it fits."""
        over = [0.0]
        if self.machine.gpus and self.machine.gpu_memory_gib:
            overhead = self.machine.memory_overhead_gib
            over.append(self.budget.total - (self.machine.gpu_memory_gib - overhead) * GIB)
        if self.machine.host_memory_gib:
            over.append(sum(self.budget.host.values()) - self.machine.host_memory_gib * GIB)
        return max(over)

    def slowness(self) -> float:
        """Seconds per token; without a peak in the machine file, the order of what a step sends stands for them."""
        if self.speed:
            return 1 / self.speed.tokens_per_second
        return SHARDINGS.index(self.machine.sharding) + 10 * self.machine.offload


def can_shard(settings: Stage) -> bool:
    """Quantized weights and 8-bit moments cannot be divided."""
    return settings.quantize == "none" and settings.optimizer != "adamw_8bit"


def can_do(sharding: str, machine: Machine) -> bool:
    """Whether this sharding can do what else the machine file asks for (checks.py says so of a fixed one)."""
    checkpointing = machine.gradient_checkpointing
    if sharding == "fsdp2" and checkpointing and (checkpointing.offload or checkpointing.every_n_layers > 1):
        return False
    return sharding != "zero1" or machine.grad_accum_dtype == "auto"


def changed(machine: Machine, **changes) -> Machine:
    """The machine with these values; DDP and FSDP2 add up gradients in fp32 by themselves, and refuse to be told."""
    if changes["sharding"] in ("none", "fsdp2"):
        changes["grad_accum_dtype"] = "auto"
    return machine.model_copy(update=changes)


def machines(settings: Stage, machine: Machine) -> list[Machine]:
    """The machine with each value that `auto` may take."""
    if machine.sharding == "auto":
        ways = [(one, False) for one in SHARDINGS] + [(one, True) for one in OFFLOADABLE if machine.gpus]
        if total_ranks(machine) == 1 or not can_shard(settings):
            ways = [("none", False), *(way for way in ways if way[1] and can_shard(settings))]
        if machine.offload:
            ways = [way for way in ways if way[1]]
        ways = [way for way in ways if can_do(way[0], machine)]
    else:
        ways = [(machine.sharding, machine.offload)]
    rows = MICRO_BATCHES if machine.micro_batch == "auto" else (machine.micro_batch,)
    return [
        changed(machine, sharding=sharding, offload=offload, micro_batch=micro)
        for sharding, offload in ways
        for micro in rows
    ]


def options(
    name: str, asked: list[tuple[Stage, Machine]], shape: Shape, no_rope_layers: list[int] | None = None
) -> list[Option]:
    """Each stage on each machine, with what it takes; those whose batch was tried already are left out."""
    tried, found = set(), []
    for settings, machine in asked:
        batch = divide_batch(settings.global_batch, machine.micro_batch, total_ranks(machine), name)
        key = (settings.model_dump_json(), machine.model_copy(update={"micro_batch": batch.micro}).model_dump_json())
        if key not in tried:
            tried.add(key)
            found.append((settings, machine, batch))
    measure([one for settings, machine, batch in found for one in passes(settings, shape, machine, batch)])
    return [
        Option(
            settings,
            machine.model_copy(update={"micro_batch": batch.micro}),
            batch,
            stage_budget(settings, shape, machine, batch, no_rope_layers),
            stage_speed(settings, shape, machine, batch, no_rope_layers),
            shape.vocab_size,
        )
        for settings, machine, batch in found
    ]
