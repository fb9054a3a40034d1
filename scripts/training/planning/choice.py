"""Choose sharding and micro-batch of a stage: the fastest that fits. Fixed values are checked, not changed.

    option = choose("sft", settings, shape, machine)      # option.machine has numbers in place of `auto`

If nothing fits, the error is one table: what was asked, by how much it misses, and which changes would fit, the fastest
first.
"""

from typing import NamedTuple

from scripts.common.cli import UserError
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.planning.activations import measure
from scripts.training.planning.batch import Batch, divide_batch, total_ranks
from scripts.training.planning.budget import Budget, passes, stage_budget
from scripts.training.planning.kernels import UNSHARDED_WEIGHTS
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


def machines(settings: Stage, machine: Machine) -> list[Machine]:
    """The machine with each value that `auto` may take."""
    if machine.sharding == "auto":
        ways = [(one, False) for one in SHARDINGS] + [(one, True) for one in OFFLOADABLE if machine.gpus]
        if total_ranks(machine) == 1 or not can_shard(settings):
            ways = [("none", False), *(way for way in ways if way[1] and can_shard(settings))]
        if machine.offload:
            ways = [way for way in ways if way[1]]
    else:
        ways = [(machine.sharding, machine.offload)]
    rows = MICRO_BATCHES if machine.micro_batch == "auto" else (machine.micro_batch,)
    return [
        machine.model_copy(update={"sharding": sharding, "offload": offload, "micro_batch": micro})
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


def choose(
    name: str,
    settings: Stage,
    shape: Shape,
    machine: Machine,
    no_rope_layers: list[int] | None = None,
    tokens: int | None = None,
) -> Option:
    """The fastest way to run the stage that fits the machine.

    Args:
        tokens: of the whole stage, for the hours in the table.

    Raises:
        UserError: none fits; the table says what would.
    """
    asked = options(name, [(settings, one) for one in machines(settings, machine)], shape, no_rope_layers)
    fitting = [option for option in asked if option.missing() <= 0]
    if fitting:
        return min(fitting, key=lambda option: (option.slowness(), -option.batch.micro))
    closest = min(asked, key=Option.missing)
    raise UserError(refusal(name, closest, alternatives(name, closest, shape, no_rope_layers), tokens))


class Change(NamedTuple):
    text: str  # as the user would write it
    option: Option


def changed_stages(settings: Stage) -> list[tuple[str, Stage]]:
    """The stage, and with less to hold: adapters, quantized weights, shorter rows."""
    lora = {"method": "lora", "optimizer": "adamw", "trainable": "all"}
    found = [("", settings)]
    if settings.method == "full":
        found += [("`method: lora`", settings.model_copy(update=lora))]
    if settings.quantize == "none":
        found += [("`method: lora`, `quantize: 4bit`", settings.model_copy(update={**lora, "quantize": "4bit"}))]
    for divisor in (2, 4, 8):
        length = settings.sequence_length // divisor
        found += [(f"`sequence_length: {length}`", settings.model_copy(update={"sequence_length": length}))]
    return found


def changed_machines(settings: Stage, machine: Machine) -> list[Machine]:
    """The machine with other sharding, offload, checkpointing and Liger; micro-batch 1."""
    ways = [(one, False) for one in SHARDINGS] + [(one, True) for one in OFFLOADABLE if machine.gpus]
    if not can_shard(settings):
        ways = [("none", False)]
    elif total_ranks(machine) == 1:
        ways = [way for way in ways if way[0] == "none" or way[1]]
    return [
        machine.model_copy(
            update={
                "sharding": sharding,
                "offload": offload,
                "gradient_checkpointing": checkpointing,
                "liger": liger,
                "micro_batch": 1,
            }
        )
        for sharding, offload in ways
        for checkpointing in sorted({machine.gradient_checkpointing, True})
        for liger in ((machine.liger, True) if machine.gpus and sharding in UNSHARDED_WEIGHTS else (machine.liger,))
    ]


def changes(settings: Stage, machine: Machine) -> list[tuple[str, Stage, Machine]]:
    """Changes of machine file or stage that take less memory, alone or together, as the user would write them."""
    found = []
    for what, stage in changed_stages(settings):
        for other in changed_machines(stage, machine):
            said = [what] if what else []
            for key in ("sharding", "offload", "gradient_checkpointing", "liger", "micro_batch"):
                value = getattr(other, key)
                if value != getattr(machine, key):
                    said.append(f"`{key}: {str(value).lower()}`")
            if said:
                found.append((", ".join(said), stage, other))
    return found


def alternatives(name: str, asked: Option, shape: Shape, no_rope_layers: list[int] | None) -> list[Change]:
    """The changes that would fit, the fastest first; of each method the fastest."""
    wanted = changes(asked.settings, asked.machine)
    measure([one for _, stage, machine in wanted for one in passes(stage, shape, machine, Batch(1, 2))])
    found = [
        Change(text, options(name, [(stage, machine)], shape, no_rope_layers)[0]) for text, stage, machine in wanted
    ]
    fitting = sorted(
        (one for one in found if one.option.missing() <= 0),
        key=lambda one: (one.option.slowness(), one.text.count(":")),
    )
    kept, kinds = [], set()
    for one in fitting:
        settings = one.option.settings
        if settings.sequence_length != asked.settings.sequence_length and (
            any(other.option.settings.sequence_length > settings.sequence_length for other in kept)
        ):
            continue  # rows need not be shorter than this
        sharding = one.option.machine.sharding if settings.method == "full" else None
        kind = (settings.method, settings.quantize, settings.sequence_length, sharding)
        if kind not in kinds:
            kinds.add(kind)
            kept.append(one)
    return kept


def hours_text(option: Option, tokens: int | None) -> str:
    """How long the stage takes; where its tokens are not known, how long 100 million take."""
    if not option.speed:
        return "hours unknown, for want of `gpu_tflops` in the machine file"
    hours = (tokens or 1e8) / option.speed.tokens_per_second / 3600
    return f"{hours:.1f} h" + ("" if tokens else " per 100 million tokens")


def refusal(name: str, asked: Option, changes: list[Change], tokens: int | None) -> str:
    """The error: what was asked, by how much it misses, and what would fit. Several lines, as a table needs them."""
    machine = asked.machine
    gpu = machine.gpus and machine.gpu_memory_gib
    limit = machine.gpu_memory_gib if gpu else machine.host_memory_gib
    where = "GPU" if gpu else "host"
    over_host = gpu and asked.budget.total <= (machine.gpu_memory_gib - machine.memory_overhead_gib) * GIB
    if over_host:
        where, limit = "host", machine.host_memory_gib
    parts = asked.budget.host if where == "host" else asked.budget.gpu
    taken = sum(parts.values())
    names = {"logits": "logits in all their copies"}
    largest = ", ".join(
        f"{names.get(part, part)} {value / GIB:.1f}"
        for part, value in sorted(parts.items(), key=lambda pair: -pair[1])
        if value / GIB >= 0.05
    )
    head = (
        f"training.train.{name}: does not fit: {taken / GIB:.1f} GiB per {where}, the machine has {limit:g}, "
        f"{asked.missing() / GIB:.1f} too few, with sharding {machine.sharding}{' and offload' * machine.offload}, "
        f"micro-batch {asked.batch.micro} and {asked.settings.sequence_length:,} tokens on "
        f"{total_ranks(machine)} GPU{'s' * (total_ranks(machine) > 1)} ({largest})"
    )
    logits = asked.budget.gpu.get("logits", 0)
    at_once = asked.batch.micro * asked.settings.sequence_length
    if logits:
        head += f"; the logits of {at_once:,} tokens alone are {4 * at_once * asked.vocabulary / GIB:.1f} GiB in fp32"
    if not changes:
        return head + "; no change of sharding, offload, checkpointing, micro-batch or method fits: use more GPUs"
    width = max(len(one.text) for one in changes)
    lines = [
        f"  {one.text:<{width}}  {one.option.budget.total / GIB:6.1f} GiB per GPU, "
        f"{sum(one.option.budget.host.values()) / GIB:6.1f} of the host; {hours_text(one.option, tokens)}"
        for one in changes
    ]
    return "\n".join([head + "; what would fit, the fastest first:", *lines])
