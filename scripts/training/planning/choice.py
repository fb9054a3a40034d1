"""Choose sharding, micro-batch and recomputed layers of a stage: the fastest that fits. Fixed values are checked.

    option = choose("sft", settings, shape, machine)      # option.machine has numbers in place of `auto`

If nothing fits, the error is a table: what was configured, how much memory is missing, and which changes would fit, the
fastest first.
"""

from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.experiment.model_folder import Shape
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.model.kernels import UNSHARDED_WEIGHTS
from scripts.training.planning.budget import Budget, stage_budget
from scripts.training.planning.parameters import counts, layers_with_gradients
from scripts.training.planning.resolved_stage import Batch, divide_batch, total_ranks
from scripts.training.planning.speed import Speed, stage_speed
from scripts.training.planning.states import GIB

MICRO_BATCHES = (1, 2, 4, 8, 16)
SHARDINGS = ("none", "zero2", "fsdp2", "zero3")  # from all states whole on each GPU to all divided
OFFLOADABLE = ("zero2", "zero3")


class Option(NamedTuple):
    """One way to run a stage."""

    settings: Stage
    machine: Machine  # without `auto`
    batch: Batch
    budget: Budget
    speed: Speed | None
    shape: Shape
    name: str  # of the stage

    def fits(self, spare: float) -> bool:
        """Whether it fits, and leaves so many bytes of the GPU free."""
        return self.missing(spare) <= 0

    def missing(self, spare: float = 0.0) -> float:
        """Bytes that are missing on the GPU or the host, whichever lacks more; 0 if the stage fits. `spare`: bytes of
        the GPU that shall stay free."""
        over = [0.0]
        if self.machine.gpus and self.machine.gpu_memory_gib:
            over.append(self.budget.total + spare - self.machine.gpu_memory_gib * GIB)
        if self.machine.host_memory_gib:
            over.append(sum(self.budget.host.values()) - self.machine.host_memory_gib * GIB)
        return max(over)

    def slowness(self) -> float:
        """Seconds per token; without `gpu_tflops` in the machine file a rank by how much a step sends."""
        if self.speed:
            return 1 / self.speed.tokens_per_second
        return SHARDINGS.index(self.machine.sharding) + 10 * self.machine.offload


def option(name: str, settings: Stage, shape: Shape, machine: Machine) -> Option:
    """Memory and speed of one way to run a stage."""
    batch = divide_batch(settings.global_batch_size, machine.micro_batch_size, total_ranks(machine), name)
    machine = machine.model_copy(update={"micro_batch_size": batch.micro})
    budget = stage_budget(settings, shape, machine, batch)
    speed = stage_speed(settings, shape, machine, batch)
    return Option(settings, machine, batch, budget, speed, shape, name)


def shardings(settings: Stage, machine: Machine) -> list[tuple[str, bool]]:
    """(sharding, offload) of each way in which this machine could hold the stage's states.

    Quantized weights and 8-bit moments cannot be divided, and one process has nobody to divide with.
    """
    if settings.quantize != "none" or not OPTIMIZERS[settings.optimizer].divides:
        return [("none", False)]
    ways = [("none", False)]
    if total_ranks(machine) > 1:
        ways = [(mode, False) for mode in SHARDINGS]
    if machine.gpus:
        ways += [(mode, True) for mode in OFFLOADABLE]
    return ways


def machines(settings: Stage, machine: Machine) -> list[Machine]:
    """The machine with each combination of values that `auto` may take."""
    ways = [(machine.sharding, machine.offload)]
    if machine.sharding == "auto":
        ways = [way for way in shardings(settings, machine) if way[1] or not machine.offload]
    rows = (machine.micro_batch_size,)
    if machine.micro_batch_size == "auto":
        rows = MICRO_BATCHES
    made = []
    for sharding, offload in ways:
        for micro in rows:
            values = {"sharding": sharding, "offload": offload, "micro_batch_size": micro}
            made.append(machine.model_copy(update=values))
    return made


HEADROOM = 0.04  # of a GPU's memory: a plan that is a little too small would end the stage hours after its start


def fewest_recomputed(name: str, settings: Stage, shape: Shape, machine: Machine) -> Option:
    """The way with the fewest recomputed layers that fits, with some headroom; with all of them where none does."""
    layers = layers_with_gradients(shape, counts(shape, settings))
    spare = HEADROOM * (machine.gpu_memory_gib or 0) * GIB

    def way(count: int) -> Option:
        chosen = True if count == layers else count or False
        return option(name, settings, shape, machine.model_copy(update={"gradient_checkpointing": chosen}))

    if machine.sharding == "fsdp2":  # which recomputes all or none
        none = way(0)
        if none.fits(spare):
            return none
        return way(layers)
    low, high = 0, layers  # the more layers, the less memory
    while low < high:
        middle = (low + high) // 2
        if way(middle).fits(spare):
            high = middle
        else:
            low = middle + 1
    return way(high)


def choose(name: str, settings: Stage, shape: Shape, machine: Machine, tokens: int | None = None) -> Option:
    """The fastest way to run the stage that fits the machine.

    Args:
        tokens: of the whole stage, for the hours in the table.

    Raises:
        UserError: none fits; the table says what would.
    """
    tried = []
    for variant in machines(settings, machine):
        if variant.gradient_checkpointing == "auto":
            tried.append(fewest_recomputed(name, settings, shape, variant))
        else:
            tried.append(option(name, settings, shape, variant))
    fitting = [way for way in tried if way.missing() <= 0]
    if fitting:
        return min(fitting, key=preference)
    closest = min(tried, key=Option.missing)
    raise UserError(refusal(name, closest, alternatives(name, closest, shape), tokens))


def preference(way: Option) -> tuple[float, int, int]:
    """The smaller, the better: the fastest; of equally fast ones the one that sends least, then the largest batch.

    Speeds within a thousandth are equal: what a step sends may hide behind computing in the plan, and never is free.
    """
    sends = SHARDINGS.index(way.machine.sharding) + len(SHARDINGS) * way.machine.offload
    return float(f"{way.slowness():.3g}"), sends, -way.batch.micro


class Change(NamedTuple):
    text: str  # as the user would write it
    option: Option


def changed_stages(settings: Stage) -> dict[str, Stage]:
    """Change as a text → the changed stage: the stage itself, then with adapters, quantized weights, shorter rows."""
    lora = {"method": "lora", "optimizer": "adamw", "trainable": "all"}
    changes = {"": {}}
    if settings.method == "full":
        changes["`method: lora`"] = lora
    if settings.quantize == "none":
        changes["`method: lora`, `quantize: 4bit`"] = {**lora, "quantize": "4bit"}
    for length in (settings.sequence_length // 2, settings.sequence_length // 4):
        changes[f"`sequence_length: {length}`"] = {"sequence_length": length}
    return {text: settings.model_copy(update=update) for text, update in changes.items()}


def alternatives(name: str, closest: Option, shape: Shape) -> list[Change]:
    """The changes that would fit, the fastest first: of the stage as it is each sharding, of a changed stage the
    fastest one; all with checkpointing and micro-batch 1."""
    changes = []
    for stage_text, stage in changed_stages(closest.settings).items():
        fitting = []
        for sharding, offload in shardings(stage, closest.machine):
            values = {"sharding": sharding, "offload": offload, "gradient_checkpointing": True, "micro_batch_size": 1}
            differing = {key: value for key, value in values.items() if value != getattr(closest.machine, key)}
            texts = [stage_text, *(f"`{key}: {str(value).lower()}`" for key, value in differing.items())]
            way = option(name, stage, shape, closest.machine.model_copy(update=values))
            if way.missing() <= 0:
                fitting.append(Change(", ".join(filter(None, texts)), way))
        fitting.sort(key=slowness_and_changes)
        if stage_text:
            fitting = fitting[:1]
        changes += fitting
    return sorted(changes, key=slowness_and_changes)


def slowness_and_changes(change: Change) -> tuple[float, int]:
    """The smaller, the better; of ways that are equally fast but for a hundredth the one with fewer changes."""
    return float(f"{change.option.slowness():.2g}"), change.text.count(":")


def hours_text(way: Option, tokens: int | None) -> str:
    """How long the stage takes; where its tokens are not known, how long 100 million take."""
    if not way.speed:
        key = "gpu_tflops" if way.machine.gpus else "cpu_tflops"
        return f"hours unknown without `{key}` in the machine file"
    hours = (tokens or 1e8) / way.speed.tokens_per_second / 3600
    if tokens:
        return f"{hours:.1f} h"
    return f"{hours:.1f} h per 100 million tokens"


def processes_text(machine: Machine) -> str:
    """How many GPUs or, without any, processes train together, in words."""
    ranks = total_ranks(machine)
    one, several = ("GPU", "GPUs") if machine.gpus else ("process", "processes")
    return f"{ranks} {one if ranks == 1 else several}"


def refusal(name: str, closest: Option, changes: list[Change], tokens: int | None) -> str:
    """The error: what was configured, how much memory is missing, and a table of what would fit."""
    machine, budget = closest.machine, closest.budget
    place, limit, parts = "host", machine.host_memory_gib, budget.host
    if machine.gpus and machine.gpu_memory_gib and budget.total > machine.gpu_memory_gib * GIB:
        place, limit, parts = "GPU", machine.gpu_memory_gib, budget.gpu
    names = {"logits": "logits in all their copies"}
    largest = []
    for part, value in sorted(parts.items(), key=lambda pair: -pair[1]):
        if value / GIB >= 0.05:
            largest.append(f"{names.get(part, part)} {value / GIB:.1f}")
    head = (
        f"training.train.{name}: does not fit: {sum(parts.values()) / GIB:.1f} GiB per {place}, the machine has"
        f" {limit:g}, {closest.missing() / GIB:.1f} too few, with sharding {machine.sharding}"
        f"{' and offload' * machine.offload}, micro-batch {closest.batch.micro} and"
        f" {closest.settings.sequence_length:,} tokens on {processes_text(machine)} ({', '.join(largest)})"
    )
    if budget.gpu.get("logits") and machine.sharding not in UNSHARDED_WEIGHTS:
        at_once = closest.batch.micro * closest.settings.sequence_length
        logits_gib = 4 * at_once * closest.shape.vocab_size / GIB
        head += f"; the logits of {at_once:,} tokens alone are {logits_gib:.1f} GiB in fp32"
    if not changes:
        return head + "; no change of sharding, offload, checkpointing, micro-batch or method fits: use more GPUs"
    width = max(len(change.text) for change in changes)
    lines = [head + "; what would fit, the fastest first:"]
    for text, way in changes:
        memory = f"{way.budget.total / GIB:6.1f} GiB per {'GPU' if machine.gpus else 'process'}"
        host = f"{sum(way.budget.host.values()) / GIB:6.1f} of the host"
        lines.append(f"  {text:<{width}}  {memory}, {host}; {hours_text(way, tokens)}")
    return "\n".join(lines)
