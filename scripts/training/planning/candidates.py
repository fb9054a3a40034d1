"""The ways to run a stage that `auto` in a machine file allows, with the memory and the speed of each.

options("sft", [(settings, machine) for machine in machines(settings, machine)], shape)

choice.py chooses one of them.
"""

from typing import NamedTuple

from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.planning.batch import Batch, divide_batch, total_ranks
from scripts.training.planning.budget import Budget, stage_budget
from scripts.training.planning.memory import GIB
from scripts.training.planning.speed import Speed, stage_speed

MICRO_BATCHES = (1, 2, 4, 8, 16)
SHARDINGS = ("none", "zero1", "zero2", "fsdp2", "zero3")  # from all states whole on each GPU to all divided
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
        """Bytes that are missing on the GPU or the host, whichever lacks more; 0 if the stage fits."""
        over = [0.0]
        if self.machine.gpus and self.machine.gpu_memory_gib:
            overhead = self.machine.memory_overhead_gib
            over.append(self.budget.total - (self.machine.gpu_memory_gib - overhead) * GIB)
        if self.machine.host_memory_gib:
            over.append(sum(self.budget.host.values()) - self.machine.host_memory_gib * GIB)
        return max(over)

    def slowness(self) -> float:
        """Seconds per token; without `gpu_tflops` in the machine file a rank by how much a step sends."""
        if self.speed:
            return 1 / self.speed.tokens_per_second
        return SHARDINGS.index(self.machine.sharding) + 10 * self.machine.offload


def can_shard(settings: Stage) -> bool:
    """Whether the states can be sharded: quantized weights and 8-bit moments cannot."""
    return settings.quantize == "none" and OPTIMIZERS[settings.optimizer].divides


def supports(sharding: str, machine: Machine) -> bool:
    """Whether this sharding works with the other settings of the machine file (checks.py refuses a fixed one)."""
    checkpointing = machine.gradient_checkpointing
    if sharding == "fsdp2" and checkpointing and (checkpointing.offload or checkpointing.every_n_layers > 1):
        return False
    return sharding != "zero1" or machine.grad_accum_dtype == "auto"


def with_values(machine: Machine, **changes) -> Machine:
    """The machine with these values; `grad_accum_dtype` is reset for DDP and FSDP2, which always use fp32."""
    if changes["sharding"] in ("none", "fsdp2"):
        changes["grad_accum_dtype"] = "auto"
    return machine.model_copy(update=changes)


def machines(settings: Stage, machine: Machine) -> list[Machine]:
    """The machine with each combination of values that `auto` may take."""
    if machine.sharding == "auto":
        ways = [(mode, False) for mode in SHARDINGS] + [(mode, True) for mode in OFFLOADABLE if machine.gpus]
        if total_ranks(machine) == 1 or not can_shard(settings):
            ways = [("none", False), *(way for way in ways if way[1] and can_shard(settings))]
        if machine.offload:
            ways = [way for way in ways if way[1]]
        ways = [way for way in ways if supports(way[0], machine)]
    else:
        ways = [(machine.sharding, machine.offload)]
    rows = MICRO_BATCHES if machine.micro_batch == "auto" else (machine.micro_batch,)
    return [
        with_values(machine, sharding=sharding, offload=offload, micro_batch=micro)
        for sharding, offload in ways
        for micro in rows
    ]


def options(
    name: str, candidates: list[tuple[Stage, Machine]], shape: Shape, no_rope_layers: list[int] | None = None
) -> list[Option]:
    """Memory and speed of each candidate; candidates that come to the same batch are taken once."""
    tried, runs = set(), []
    for settings, machine in candidates:
        batch = divide_batch(settings.global_batch, machine.micro_batch, total_ranks(machine), name)
        key = (settings.model_dump_json(), machine.model_copy(update={"micro_batch": batch.micro}).model_dump_json())
        if key not in tried:
            tried.add(key)
            runs.append((settings, machine, batch))
    return [
        Option(
            settings,
            machine.model_copy(update={"micro_batch": batch.micro}),
            batch,
            stage_budget(settings, shape, machine, batch, no_rope_layers),
            stage_speed(settings, shape, machine, batch, no_rope_layers),
            shape.vocab_size,
        )
        for settings, machine, batch in runs
    ]
