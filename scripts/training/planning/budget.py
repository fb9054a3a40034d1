"""Memory of a stage per GPU and per host, part by part.

budget = stage_budget(settings, shape, machine, Batch(micro=1, accumulation=16))
budget.gpu["logits"], budget.total     # bytes

All of it follows from closed forms: of the model states (memory.py) and of what a pass keeps alive (activations.py).
"""

import importlib.util
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from scripts.experiment.model_shape import Shape
from scripts.experiment.optimizers import OPTIMIZERS
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage
from scripts.training.planning.activations import Pass, Peak, pass_peak
from scripts.training.planning.kernels import SDPA, Installed, choose_attention, choose_liger, least_capability
from scripts.training.planning.memory import GIB, model_states
from scripts.training.planning.parameters import counts
from scripts.training.planning.resolved_stage import Batch, local_ranks, total_ranks

# CUDA's context with the kernels that torch, cuBLAS and Triton load; NCCL's channels where GPUs talk (docs/plan.md)
CONTEXT, COMMUNICATION = 0.6 * GIB, 0.4 * GIB
# Share of what comes and goes that the allocator reserves and cannot hand out (docs/plan.md has the figures and their
# source); model states are made once and leave no gaps.
FRAGMENTATION = 0.10
FLASH_INSTALLED = Installed(flash_attn=True, varlen=True, liger=False)  # each flash kernel keeps the same alive
PROCESS = 2.0 * GIB  # of host memory: interpreter, libraries, pinned buffers, the data loader


class Budget(NamedTuple):
    gpu: dict[str, float]  # bytes by part
    host: dict[str, float]
    peak: str  # the phase in which most memory is used

    @property
    def total(self) -> float:
        return sum(self.gpu.values())


@cache
def liger_expected() -> bool:
    """Whether Liger's kernels are, or will be, where the stage runs.

    `make env` installs them on hosts with GPUs alone. On another one, as a login node, the plan is for those with GPUs.
    """
    return importlib.util.find_spec("liger_kernel") is not None or least_capability() is None


def uses_liger(machine: Machine) -> bool:
    """Whether the stage will run Liger's kernels; `liger: true` is not checked, as planning does not need it."""
    return choose_liger(machine, machine.liger is True or liger_expected()).name == "on"


def stage_passes(settings: Stage, shape: Shape, machine: Machine, batch: Batch) -> tuple[Pass, Pass]:
    """The training pass and the validation pass of a stage."""
    half = settings.precision == "bf16"
    zero, gathered = machine.sharding.startswith("zero"), machine.sharding == "fsdp2"
    training = Pass(
        shape=shape,
        sequence_length=settings.sequence_length,
        rows=batch.micro,
        checkpointing=machine.gradient_checkpointing,
        flash=choose_attention((8, 0) if machine.gpus else None, settings.precision, FLASH_INSTALLED).name != SDPA,
        liger=uses_liger(machine),
        weights="bfloat16" if half and (zero or gathered or settings.method == "lora") else "float32",
        autocast=half and not zero,
        lora=settings.lora if settings.method == "lora" else None,
        # one process with one pass per step makes its gradients in that pass
        accumulated=machine.sharding != "none" or total_ranks(machine) > 1 or batch.accumulation > 1,
    )
    return training, replace(training, training=False, checkpointing=False, liger=False, accumulated=False)


def dequantized(shape: Shape, settings: Stage) -> float:
    """Bytes of the largest matrix in the precision of compute, made by each pass through quantized weights."""
    return 0 if settings.quantize == "none" else 2 * shape.hidden_size * shape.intermediate_size


def stage_budget(
    settings: Stage,
    shape: Shape,
    machine: Machine,
    batch: Batch,
    no_rope_layers: list[int] | None = None,
    validates: bool = True,
) -> Budget:
    """The memory of a stage.

    Args:
        batch: rows per process and pass, and passes per optimizer step.
        validates: whether validation rows are scored too, as every stage with such rows does.
    """
    states = model_states(shape, settings, machine, no_rope_layers)
    counted = counts(shape, settings, no_rope_layers or [])
    training, validation = stage_passes(settings, shape, machine, batch)
    # Layers before the first trained one keep nothing for the backward pass.
    layers = max(2, shape.num_hidden_layers - counted.first_layer)
    ranks = total_ranks(machine)
    busy = pass_peak(training, layers)
    if not training.accumulated:  # its gradients are made within the pass, and are counted with the states
        busy = busy._replace(bytes=max(0, busy.bytes - round(states.gradients)))
    step = OPTIMIZERS[settings.optimizer].step_bytes * counted.largest
    if step > busy.bytes:
        busy = Peak(round(step), 0, "optimizer step")
    scored = pass_peak(validation, shape.num_hidden_layers)
    if (
        validates and scored.bytes > busy.bytes + states.gradients
    ):  # no gradient exists while the validation rows are scored
        busy = Peak(scored.bytes - round(states.gradients), scored.logits, "validation")
    moving = busy.bytes + dequantized(shape, settings) + states.gathered
    logits = min(busy.logits, busy.bytes)
    gpu = {
        "weights": states.weights,
        "gradients": states.gradients,
        "optimizer": states.optimizer,
        "gathered weights": states.gathered,
        "buckets": states.buckets,
        "activations": busy.bytes - logits + dequantized(shape, settings),
        "logits": float(logits),
    }
    processes = local_ranks(machine)
    if not machine.gpus:
        host = {"all processes": processes * sum(gpu.values()), "programs": processes * PROCESS}
        return Budget(gpu, host, busy.phase)
    gpu |= {"CUDA": CONTEXT + (COMMUNICATION if ranks > 1 else 0), "fragmentation": FRAGMENTATION * moving}
    host = {"states or loading": states.host, "programs": processes * PROCESS}
    return Budget(gpu, host, busy.phase)
