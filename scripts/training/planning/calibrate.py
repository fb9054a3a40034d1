"""Keep what finished stages measured on a machine for its next plans: the share of the peak, memory beyond the plan.

    python -m scripts.training.planning.calibrate --profile a40

It compares each finished stage's summary.json with its plan and rewrites `mfu` and `memory_overhead_gib` in the machine
file, in place; all else of the file, comments too, stays as it is. A plan says where a stage runs, never what it
computes, so nothing that is finished reruns.
"""

import logging
import re
import statistics

from scripts.common.cli import UserError, run
from scripts.common.files import atomic
from scripts.experiment.load import experiment_parser
from scripts.experiment.settings.machine import Machine
from scripts.training.planning.overview import StagePlan, plans_of


def ran_as_planned(stage: StagePlan) -> bool:
    """Whether a finished stage's figures are of the plan's way to run it, and not of a resumed rest."""
    measured = stage.measured
    same = all(measured.get(key) == stage.plan.get(key) for key in ("micro_batch", "gradient_accumulation"))
    where = measured.get("sharding") == stage.plan.get("sharding")
    return bool(stage.plan.get("tokens_per_second")) and same and where and not measured.get("resumed_at_step")


def calibrated(machine: Machine, stages: list[StagePlan]) -> dict[str, float]:
    """New values for the machine file; the medians over the finished stages.

    The passes' share of the peak is what makes the plan's speed the measured one, communication and offload as planned.

    Raises:
        UserError: no stage has run as its plan has it.
    """
    finished = [stage for stage in stages if ran_as_planned(stage)]
    if not finished:
        raise UserError(
            "calibrate: no finished stage of this experiment ran on this machine file as its plan has it; run one first"
        )
    shares, overheads = [], []
    for stage in finished:
        planned = stage.plan
        seconds = planned["tokens_per_step"] / stage.measured["tokens_per_second"]
        beside = planned["communication_seconds"] + planned["offload_seconds"]
        compute = planned["step_seconds"] - beside
        shares.append(machine.mfu * compute / max(seconds - beside, 0.05 * seconds))
        if stage.measured.get("memory_gib") and planned.get("gpu_gib"):
            overheads.append(machine.memory_overhead_gib + stage.measured["memory_gib"] - planned["gpu_gib"])
    values = {"mfu": round(min(0.95, statistics.median(shares)), 4)}
    if overheads:
        values["memory_overhead_gib"] = round(statistics.median(overheads), 2)
    return values


def rewritten(text: str, values: dict[str, float]) -> str:
    """The machine file with these values, each in its line or in a new one at the end."""
    for key, value in values.items():
        line = f"{key}: {value}  # measured by `make calibrate`"
        text, count = re.subn(rf"^{key}:.*$", line, text, flags=re.MULTILINE)
        if not count:
            text = f"{text.rstrip()}\n{line}\n"
    return text


def main() -> None:
    arguments = experiment_parser(__doc__)
    told = arguments.parse_args()
    _, path, machine, stages = plans_of(told.profile, told.configfile)
    values = calibrated(machine, stages)
    text = rewritten(path.read_text(encoding="utf-8"), values)
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    for key, value in values.items():
        logging.info(f"{path}: {key} {getattr(machine, key)} -> {value}")


if __name__ == "__main__":
    run(main)
