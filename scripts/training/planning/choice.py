"""Choose sharding and micro-batch of a stage: the fastest that fits. Fixed values are checked, not changed.

    option = choose("sft", settings, shape, machine)      # option.machine has numbers in place of `auto`

If nothing fits, the error is a table: what was configured, how much memory is missing, and which changes would fit, the
fastest first.
"""

from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Checkpointing, Machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.planning.batch import total_ranks
from scripts.training.planning.candidates import (
    OFFLOADABLE,
    SHARDINGS,
    Option,
    can_shard,
    machines,
    options,
    supports,
    with_values,
)
from scripts.training.planning.kernels import UNSHARDED_WEIGHTS
from scripts.training.planning.memory import GIB


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
    candidates = options(name, [(settings, variant) for variant in machines(settings, machine)], shape, no_rope_layers)
    fitting = [option for option in candidates if option.missing() <= 0]
    if fitting:
        return min(fitting, key=preference)
    closest = min(candidates, key=Option.missing)
    raise UserError(refusal(name, closest, alternatives(name, closest, shape, no_rope_layers), tokens))


def preference(option: Option) -> tuple[float, int, int]:
    """The smaller, the better: the fastest; of equally fast ones the one that sends least, then the largest batch.

    Speeds within a thousandth are equal: what a step sends may hide behind computing in the plan, and never is free.
    """
    sends = SHARDINGS.index(option.machine.sharding) + len(SHARDINGS) * option.machine.offload
    return float(f"{option.slowness():.3g}"), sends, -option.batch.micro


class Change(NamedTuple):
    text: str  # as the user would write it
    option: Option


def changed_stages(settings: Stage) -> list[tuple[str, Stage]]:
    """(change as a text, the changed stage): the stage itself, then with adapters, quantized weights, shorter rows."""
    lora = {"method": "lora", "optimizer": "adamw", "trainable": "all"}
    changed = [("", settings)]
    if settings.method == "full":
        changed += [("`method: lora`", settings.model_copy(update=lora))]
    if settings.quantize == "none":
        changed += [("`method: lora`, `quantize: 4bit`", settings.model_copy(update={**lora, "quantize": "4bit"}))]
    for divisor in (2, 4, 8):
        length = settings.sequence_length // divisor
        changed += [(f"`sequence_length: {length}`", settings.model_copy(update={"sequence_length": length}))]
    return changed


def changed_machines(settings: Stage, machine: Machine) -> list[Machine]:
    """The machine with other sharding, offload, checkpointing and Liger; micro-batch 1."""
    ways = [(mode, False) for mode in SHARDINGS] + [(mode, True) for mode in OFFLOADABLE if machine.gpus]
    if not can_shard(settings):
        ways = [("none", False)]
    elif total_ranks(machine) == 1:
        ways = [way for way in ways if way[0] == "none" or way[1]]
    changed = []
    for sharding, offload in ways:
        fused = [machine.liger]
        if machine.gpus and sharding in UNSHARDED_WEIGHTS:
            fused.append(True)
        for checkpointing in dict.fromkeys((machine.gradient_checkpointing, Checkpointing())):
            if not supports(sharding, machine.model_copy(update={"gradient_checkpointing": checkpointing})):
                continue
            values = {"sharding": sharding, "offload": offload, "gradient_checkpointing": checkpointing}
            changed += [with_values(machine, **values, liger=liger, micro_batch=1) for liger in fused]
    return changed


def changes(settings: Stage, machine: Machine) -> list[tuple[str, Stage, Machine]]:
    """Changes of machine file or stage that take less memory, alone or together, as the user would write them."""
    combinations = []
    for stage_text, stage in changed_stages(settings):
        for changed in changed_machines(stage, machine):
            texts = [stage_text] if stage_text else []
            for key in ("sharding", "offload", "gradient_checkpointing", "grad_accum_dtype", "liger", "micro_batch"):
                value = getattr(changed, key)
                if value != getattr(machine, key):
                    text = "true" if isinstance(value, Checkpointing) else str(value).lower()
                    texts.append(f"`{key}: {text}`")
            if texts:
                combinations.append((", ".join(texts), stage, changed))
    return combinations


def alternatives(name: str, option: Option, shape: Shape, no_rope_layers: list[int] | None) -> list[Change]:
    """The changes that would fit, the fastest first; only the fastest for each method and sharding."""
    candidates = changes(option.settings, option.machine)
    tried = [
        Change(text, options(name, [(stage, machine)], shape, no_rope_layers)[0]) for text, stage, machine in candidates
    ]
    fitting = sorted(
        (change for change in tried if change.option.missing() <= 0),
        key=lambda change: (change.option.slowness(), change.text.count(":")),
    )
    kept, kinds = [], set()
    for change in fitting:
        settings = change.option.settings
        if settings.sequence_length != option.settings.sequence_length and (
            any(faster.option.settings.sequence_length > settings.sequence_length for faster in kept)
        ):
            continue  # rows need not be shorter than this
        sharding = change.option.machine.sharding if settings.method == "full" else None
        kind = (settings.method, settings.quantize, settings.sequence_length, sharding)
        if kind not in kinds:
            kinds.add(kind)
            kept.append(change)
    return kept


def hours_text(option: Option, tokens: int | None) -> str:
    """How long the stage takes; where its tokens are not known, how long 100 million take."""
    if not option.speed:
        key = "gpu_tflops" if option.machine.gpus else "cpu_tflops"
        return f"hours unknown without `{key}` in the machine file"
    hours = (tokens or 1e8) / option.speed.tokens_per_second / 3600
    return f"{hours:.1f} h" + ("" if tokens else " per 100 million tokens")


def processes_text(machine: Machine) -> str:
    """How many GPUs or, without any, processes train together, in words."""
    ranks = total_ranks(machine)
    one, several = ("GPU", "GPUs") if machine.gpus else ("process", "processes")
    return f"{ranks} {one if ranks == 1 else several}"


def refusal(name: str, option: Option, changes: list[Change], tokens: int | None) -> str:
    """The error: what was configured, how much memory is missing, and a table of what would fit."""
    machine = option.machine
    gpu = machine.gpus and machine.gpu_memory_gib
    limit = machine.gpu_memory_gib if gpu else machine.host_memory_gib
    place = "GPU" if gpu else "host"
    over_host = gpu and option.budget.total <= (machine.gpu_memory_gib - machine.memory_overhead_gib) * GIB
    if over_host:
        place, limit = "host", machine.host_memory_gib
    parts = option.budget.host if place == "host" else option.budget.gpu
    used = sum(parts.values())
    names = {"logits": "logits in all their copies"}
    largest = ", ".join(
        f"{names.get(part, part)} {value / GIB:.1f}"
        for part, value in sorted(parts.items(), key=lambda pair: -pair[1])
        if value / GIB >= 0.05
    )
    head = (
        f"training.train.{name}: does not fit: {used / GIB:.1f} GiB per {place}, the machine has {limit:g}, "
        f"{option.missing() / GIB:.1f} too few, with sharding {machine.sharding}{' and offload' * machine.offload}, "
        f"micro-batch {option.batch.micro} and {option.settings.sequence_length:,} tokens on "
        f"{processes_text(machine)} ({largest})"
    )
    logits = option.budget.gpu.get("logits", 0)
    at_once = option.batch.micro * option.settings.sequence_length
    if logits:
        head += f"; the logits of {at_once:,} tokens alone are {4 * at_once * option.vocabulary / GIB:.1f} GiB in fp32"
    if not changes:
        return head + "; no change of sharding, offload, checkpointing, micro-batch or method fits: use more GPUs"
    width = max(len(item.text) for item in changes)
    lines = [
        f"  {item.text:<{width}}  {item.option.budget.total / GIB:6.1f} GiB per {'GPU' if machine.gpus else 'process'},"
        f" {sum(item.option.budget.host.values()) / GIB:6.1f} of the host; {hours_text(item.option, tokens)}"
        for item in changes
    ]
    return "\n".join([head + "; what would fit, the fastest first:", *lines])
