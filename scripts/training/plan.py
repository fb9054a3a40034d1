"""Plan a stage on a machine: steps, memory part by part, disk, hours and cost; whether it fits, and what would.

    python -m scripts.training.plan --stage sft --machine config/machines/a40.yaml \\
        --monitoring config/monitoring/default.yaml \\
        --settings '{"from": "base", ...}' --shape '{"hidden_size": 3584, ...}' \\
        --shards results/tokens/pack/instruct-4096 --out results/training/plan/sft.json

The workflow checks the same when it starts, so that a stage that cannot fit ends it before any job is queued.
`stagecraft plan` shows all stages in one table, before any data exists (scripts/training/planning/overview.py).
"""

import logging
from collections.abc import Sequence
from pathlib import Path

from scripts.common.cli import run
from scripts.common.disk import free_bytes
from scripts.common.files import read_json, write_json
from scripts.common.options import command
from scripts.experiment.machine_files import load_machine, load_monitoring
from scripts.experiment.model_folder import Shape, shape_of_folder
from scripts.experiment.settings.training import Stage
from scripts.training.planning.checks import check_validation
from scripts.training.planning.plan_stage import PlanInputs, part_plans, plan, with_layers
from scripts.training.planning.resolved_stage import rows_of_splits
from scripts.training.planning.states import GIB, disk_warning


def plan_file(
    stage: str,
    settings: Stage,
    machine: Path,
    monitoring: Path,
    shards: Path,
    out: Path,
    shape: dict | None = None,
    folder: str = "",
    no_rope_layers: Sequence[int] = (),
) -> None:
    """Write the plan of a stage to the file `out`.

    Args:
        shape: the model's, as the settings have it.
        folder: the model's, where the settings have no shape.
    """
    manifest = read_json(shards / "manifest.json")
    check_validation(stage, settings, shards, manifest)
    rows = rows_of_splits(manifest, settings)
    known = None
    if shape:
        known = Shape(**shape)
    elif folder:
        known = shape_of_folder(Path(folder))
    settings = with_layers(settings, no_rope_layers)
    inputs = PlanInputs(stage, settings, load_machine(machine), known, *rows, load_monitoring(monitoring))
    result = plan(inputs) | part_plans(manifest["splits"]["train"], inputs)
    free = free_bytes(out) / GIB
    result.setdefault("warnings", []).extend(disk_warning(inputs.resolve(), result, free))
    write_json(out, result)
    for warning in result.pop("warnings"):
        logging.warning(f"warning: {warning}")
    for key, value in result.items():
        text = f"{value:,}" if isinstance(value, int | float) else value or "unknown"
        logging.info(f"plan {stage}: {key} {text}")


if __name__ == "__main__":
    run(command(plan_file))
