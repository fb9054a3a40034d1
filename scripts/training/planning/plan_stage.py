"""The plan of one stage, as results/training/plan/{stage}.json holds it; see scripts/training/plan.py."""

from scripts.experiment.settings.machine import Machine
from scripts.training.planning.batch import divide_batch, total_ranks
from scripts.training.planning.candidates import Option
from scripts.training.planning.checks import check_choosable, check_sharding, check_trainable
from scripts.training.planning.disk import stage_disk
from scripts.training.planning.memory import GIB, model_states
from scripts.training.planning.parameters import count_parameters, counts
from scripts.training.planning.recomputation import recomputed_share
from scripts.training.planning.schedule import check_schedule, intervals, length_warnings, schedule_warnings
from scripts.training.planning.speed import noncausal_over_causal, operations, stage_cost
from scripts.training.planning.stage import PlanInputs, choose_option, least_memory

VALIDATION_SHARE = 1 / 3  # of a training row's time: a forward pass alone


def plan(inputs: PlanInputs, traced: bool = True) -> dict:
    """The plan of one stage, as plan/{stage}.json holds it.

    Args:
        traced: trace the model's memory (seconds, then cached). Else memory is only checked by closed forms, and an
            `auto` of the machine file is not resolved.

    Raises:
        UserError: the global batch does not divide, the stage does not fit or trains nothing, the machine file shards
            what cannot be sharded, or the warm-up is longer than the stage.
    """
    check_sharding(inputs.name, inputs.settings, inputs.machine)
    check_choosable(inputs.machine)
    if inputs.known_shape:
        check_trainable(inputs.name, inputs.settings, inputs.known_shape)
    settings, steps, machine = inputs.resolved, inputs.steps, inputs.machine
    result = {"learning_rate": settings.learning_rate, "global_batch": settings.global_batch}
    result["warnings"] = length_warnings(inputs.name, settings, inputs.known_shape)
    if settings.global_batch == "auto":
        return result
    tokens_per_step = settings.global_batch * settings.sequence_length
    result |= {"tokens_per_step": tokens_per_step, "steps": steps, "tokens": steps and steps * tokens_per_step}
    if steps:
        check_schedule(inputs.name, settings, steps)
        warnings = schedule_warnings(inputs.name, settings, steps, total_ranks(machine), inputs.validation_rows)
        result |= intervals(settings, steps)._asdict() | {"warnings": result["warnings"] + warnings}
    least_memory(inputs)
    option = choose_option(inputs) if traced else None
    if option:
        machine = option.machine
    if machine.micro_batch != "auto":
        batch = divide_batch(settings.global_batch, machine.micro_batch, total_ranks(machine), inputs.name)
        result |= {"micro_batch": batch.micro, "gradient_accumulation": batch.accumulation}
    if inputs.known_shape and machine.sharding != "auto":
        result |= plan_states(inputs, machine) | plan_disk(inputs, machine)
    return result | (plan_option(inputs, option) if option else {})


def plan_states(inputs: PlanInputs, machine: Machine) -> dict:
    """The part of the plan that is about the model states, by closed forms."""
    counted = counts(inputs.known_shape, inputs.settings, list(inputs.no_rope_layers))
    states = model_states(inputs.known_shape, inputs.settings, machine, list(inputs.no_rope_layers))
    return {
        "sharding": machine.sharding,
        "offload": machine.offload,
        "parameters": count_parameters(inputs.known_shape),
        "trainable_parameters": counted.trained,
        "model_states_gib": round(sum(states[:4]) / GIB, 2),
        "host_gib": round(states.host / GIB, 2),
    }


def plan_disk(inputs: PlanInputs, machine: Machine) -> dict:
    """The part of the plan that is about disk: one checkpoint, the most at once, the published model."""
    disk = stage_disk(inputs.resolved, inputs.known_shape, machine, inputs.steps, list(inputs.no_rope_layers))
    return {
        "checkpoint_gib": round(disk.checkpoint / GIB, 2),
        "checkpoints_gib": round(disk.checkpoint * disk.checkpoints / GIB, 2),
        "published_gib": round(disk.published / GIB, 2),
    }


def digits(value: float) -> float:
    """The first four digits of a number, as seconds may be hours or milliseconds."""
    return float(f"{value:.4g}")


def plan_option(inputs: PlanInputs, option: Option) -> dict:
    """The part of the plan that needs the trace: memory part by part, speed, hours, cost."""
    machine, steps, shape = option.machine, inputs.steps, inputs.known_shape
    budget, speed = option.budget, option.speed
    result = {
        "gpu_parts_gib": {part: round(value / GIB, 2) for part, value in budget.gpu.items()} if machine.gpus else {},
        "gpu_gib": round(budget.total / GIB, 2) if machine.gpus else None,
        "host_parts_gib": {part: round(value / GIB, 2) for part, value in budget.host.items()},
        "host_total_gib": round(sum(budget.host.values()) / GIB, 2),
        "peak": budget.peak,
    }
    counted = counts(shape, option.settings, list(inputs.no_rope_layers))
    work = operations(shape, option.settings, counted, recomputed_share(shape, machine))
    tokens = steps and steps * option.settings.global_batch * option.settings.sequence_length
    if tokens:
        result["operations"] = tokens * work.model
        if inputs.trained_tokens:
            result["share_of_base"] = tokens * work.model / (6 * count_parameters(shape) * inputs.trained_tokens)
    if speed is None:
        return result
    result |= {
        "tokens_per_second": round(speed.tokens_per_second, 1),
        "step_seconds": digits(speed.step),
        "communication_seconds": digits(speed.communication),
        "offload_seconds": digits(speed.offload),
    }
    if speed.mfu is not None:
        ratio = noncausal_over_causal(shape, option.settings.sequence_length)
        result |= {"mfu": round(speed.mfu, 4), "mfu_noncausal": round(speed.mfu * ratio, 4)}
    if steps:
        rows = min(option.settings.eval_rows, inputs.validation_rows or option.settings.eval_rows)
        scored = steps // intervals(option.settings, steps).eval * rows * option.settings.sequence_length
        cost = stage_cost(speed, steps, scored / speed.tokens_per_second * VALIDATION_SHARE, machine)
        result |= {
            "seconds": digits(3600 * cost.hours),
            "hours": round(cost.hours, 2),
            "kwh": cost.kwh and round(cost.kwh, 1),
        }
        result |= {"price": cost.money and round(cost.money, 2), "currency": machine.currency}
    return result
