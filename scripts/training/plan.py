"""Plan a stage on a machine, by closed forms: steps, tokens, gradient accumulation, memory of model states.

    python -m scripts.training.plan --stage sft --machine config/machines/a40.yaml \
        --settings '{"from": "base", ...}' --shape '{"hidden_size": 3584, ...}' \
        --shards results/tokens/pack/instruct-4096 --out results/training/plan/sft.json

The workflow also calls `plan` at its start, so that a stage that cannot fit ends it before any job is queued.
"""

import logging
import math
from pathlib import Path

from scripts.common.cli import UserError, parser, run
from scripts.common.files import read_json, write_json
from scripts.experiment.machine_files import load_machine
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.optimization.auto_settings import resolve_auto, training_steps
from scripts.training.planning.batch import divide_batch, total_ranks
from scripts.training.planning.checks import check_sharding, check_validation
from scripts.training.planning.disk import checkpoint_bytes, checkpoints_at_once
from scripts.training.planning.memory import GIB, full_training_memory, lora_memory, moment_bytes
from scripts.training.planning.parameters import adapter_parameters, count_parameters


def plan(name: str, settings: Stage, shape: Shape | None, machine: Machine, rows: int | None = None) -> dict:
    """The plan of one stage, as plan/{stage}.json holds it.

    Args:
        name: the stage's, for errors.
        shape: of the model; without it, or without its `vocab_size`, memory is left out.
        rows: packed training rows, None before they are packed.

    Raises:
        UserError: the global batch does not divide, the model states alone exceed a GPU's memory, or the machine file
            shards what cannot be sharded.
    """
    check_sharding(name, settings, machine)
    known = shape if shape and shape.vocab_size else None
    settings = resolve_auto(settings, count_parameters(known) if known else None, rows)
    result = {"learning_rate": settings.learning_rate, "global_batch": settings.global_batch}
    if settings.global_batch != "auto":
        batch = divide_batch(settings.global_batch, machine.micro_batch, total_ranks(machine), name)
        steps = settings.steps if rows is None else training_steps(settings, rows)
        tokens_per_step = settings.global_batch * settings.sequence_length
        result |= {
            "micro_batch": batch.micro,
            "gradient_accumulation": batch.accumulation,
            "tokens_per_step": tokens_per_step,
            "steps": steps,
            "tokens": steps and steps * tokens_per_step,
        }
    if known:
        result |= plan_memory(name, settings, known, machine) | plan_disk(settings, known, machine, result.get("steps"))
    return result


def plan_memory(name: str, settings: Stage, shape: Shape, machine: Machine) -> dict:
    """The part of the plan that is about memory.

    Raises:
        UserError: the model states exceed the memory of a GPU or of the host.
    """
    states, host = full_training_memory(shape, machine, settings.optimizer)
    result = {}
    if settings.method == "lora":
        states = lora_memory(shape, settings)
        result["trainable_parameters"] = adapter_parameters(shape, settings.lora)
    limit = machine.gpu_memory_gib if machine.gpus else machine.host_memory_gib
    if limit and states / GIB > limit:
        raise UserError(
            f"training.train.{name}: model states take {states / GIB:.1f} GiB per process, the machine has "
            f"{limit}; use more GPUs, another `sharding` or `offload` in the machine file"
        )
    if machine.gpus and settings.method == "full" and host / GIB > (machine.host_memory_gib or math.inf):
        raise UserError(
            f"training.train.{name}: {'offloaded states' if machine.offload else 'loading'} take "
            f"{host / GIB:.1f} GiB of host memory, the machine has {machine.host_memory_gib}; use more nodes or "
            f"{'no `offload`' if machine.offload else 'zero3'} in the machine file"
        )
    return result | {
        "parameters": count_parameters(shape),
        "model_states_gib": round(states / GIB, 2),
        "host_gib": round(host / GIB, 2),
    }


def plan_disk(settings: Stage, shape: Shape, machine: Machine, steps: int | None) -> dict:
    """The part of the plan that is about disk: one checkpoint if all parameters are trained, and the most at once."""
    parameters = count_parameters(shape)
    if settings.method == "lora":
        parameters = adapter_parameters(shape, settings.lora)
        moments = 8 * parameters
    else:
        moments = moment_bytes(shape, settings.optimizer)
    one = checkpoint_bytes(settings, machine, parameters, parameters, moments) / GIB
    return {"checkpoint_gib": round(one, 2), "checkpoints_gib": round(one * checkpoints_at_once(settings, steps), 2)}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--stage", required=True)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--settings", type=Stage.from_json, required=True)
    arguments.add_argument("--shape", type=Shape.from_json, help="the model's shape, where it is known")
    arguments.add_argument("--shards", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    manifest = read_json(given.shards / "manifest.json")
    check_validation(given.stage, given.settings, given.shards, manifest)
    rows = manifest["splits"]["train"]["rows"]
    result = plan(given.stage, given.settings, given.shape, load_machine(given.machine), rows)
    write_json(given.out, result)
    for key, value in result.items():
        text = f"{value:,}" if isinstance(value, int | float) else value or "unknown"
        logging.info(f"plan {given.stage}: {key} {text}")


if __name__ == "__main__":
    run(main)
