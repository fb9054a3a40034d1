"""Write the speed and memory that finished stages measured into the machine file, for later plans.

    stagecraft calibrate --profile a40

It compares each finished stage's summary.json with its plan and rewrites `mfu` and `memory_overhead_gib` in the machine
file (without GPUs `cpu_tflops`), in place; all else of the file, comments too, stays as it is. A plan says where a
stage runs, never what it computes, so nothing that is finished reruns.
"""

import logging
import re
import statistics
from pathlib import Path

import yaml

from scripts.common.errors import UserError
from scripts.common.files import atomic
from scripts.experiment.settings.machine import Machine
from scripts.training.planning.overview import StagePlan, plans_of, stage_plans


def ran_as_planned(stage: StagePlan) -> bool:
    """Whether a finished stage ran as its plan says, and was not resumed."""
    measured = stage.measured
    same_batch = all(measured.get(key) == stage.plan.get(key) for key in ("micro_batch", "gradient_accumulation"))
    same_sharding = measured.get("sharding") == stage.plan.get("sharding")
    complete = measured.get("seconds") and measured.get("steps") and not measured.get("resumed_at_step")
    return bool(stage.plan.get("seconds") and complete and same_batch and same_sharding)


def step_seconds(stage: StagePlan) -> float:
    """Measured seconds of a step, without the validation losses, whose share is taken from the plan."""
    planned, measured = stage.plan, stage.measured
    as_steps = planned["seconds"] / planned["step_seconds"] * measured["steps"] / planned["steps"]
    return measured["seconds"] / as_steps


def calibrated(machine: Machine, stages: list[StagePlan]) -> dict[str, float]:
    """New values for the machine file; the medians over the finished stages.

    The passes' share of the peak is what makes the plan's time the measured one, communication and offload as planned.

    Raises:
        UserError: no stage has run as its plan says.
    """
    finished = [stage for stage in stages if ran_as_planned(stage)]
    if not finished:
        if refused := next((stage.error for stage in stages if stage.error and stage.measured), ""):
            raise UserError(f"calibrate: {refused.splitlines()[0]}")
        peak = machine.gpus and not machine.gpu_tflops
        raise UserError(
            "calibrate: set `gpu_tflops` (a GPU's peak) in the machine file; the share of it reached is measured"
            if peak
            else "calibrate: no stage of this experiment has finished with this machine file and the settings of its"
            " plan; run one first"
        )
    if not machine.gpus:
        ratios = [stage.plan["step_seconds"] / step_seconds(stage) for stage in finished]
        return {"cpu_tflops": float(f"{machine.cpu_tflops * statistics.median(ratios):.3g}")}
    shares, overheads = [], []
    for stage in finished:
        planned, seconds = stage.plan, step_seconds(stage)
        not_computing = planned["communication_seconds"] + planned["offload_seconds"]
        compute = planned["step_seconds"] - not_computing
        shares.append(machine.mfu * compute / max(seconds - not_computing, 0.05 * seconds))
        if stage.measured.get("memory_gib") and planned.get("gpu_gib"):
            overheads.append(machine.memory_overhead_gib + stage.measured["memory_gib"] - planned["gpu_gib"])
    values = {"mfu": round(min(0.95, statistics.median(shares)), 4)}
    if overheads:
        values["memory_overhead_gib"] = round(statistics.median(overheads), 2)
    return values


def rewritten(text: str, values: dict[str, float], path: Path) -> str:
    """The machine file at `path` with these values, each in its line or in a new one at the end.

    Raises:
        UserError: the file does not have one key per line.
    """
    for key, value in values.items():
        line = f"{key}: {value}  # measured by `stagecraft calibrate`"
        text, count = re.subn(rf"^{key}:.*$", line, text, flags=re.MULTILINE)
        if not count:
            text = f"{text.rstrip()}\n{line}\n"
    try:
        machine = Machine.parse(yaml.safe_load(text), str(path))
        written = {key: getattr(machine, key) for key in values} == values
    except (yaml.YAMLError, UserError):
        written = False
    if not written:
        lines = ", ".join(f"{key}: {value}" for key, value in values.items())
        raise UserError(f"{path}: must have one key per line to be rewritten; add by hand: {lines}")
    return text


def calibrate(profile: str, configfile: Path | None) -> None:
    """Rewrite the figures of the profile's machine file.

    Raises:
        UserError: no stage of the experiment has run there as its plan says.
    """
    flow, path, machine, stages = plans_of(profile, configfile)
    known = machine
    if not machine.gpus and machine.cpu_tflops is None:  # with a speed of 1, the measured speed is the factor
        known = machine.model_copy(update={"cpu_tflops": 1.0})
        stages = stage_plans(flow, known)
    values = calibrated(known, stages)
    text = rewritten(path.read_text(encoding="utf-8"), values, path)
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    for key, value in values.items():
        logging.info(f"{path}: {key} {getattr(machine, key)} -> {value}")
