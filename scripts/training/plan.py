"""Plan a stage on a machine: steps, memory part by part, disk, hours and cost; whether it fits, and what would.

    python -m scripts.training.plan --stage sft --machine config/machines/a40.yaml \\
        --monitoring config/monitoring/default.yaml \\
        --settings '{"from": "base", ...}' --shape '{"hidden_size": 3584, ...}' \\
        --shards results/tokens/pack/instruct-4096 --out results/training/plan/sft.json

The workflow checks the same when it starts, so that a stage that cannot fit ends it before any job is queued.
`stagecraft plan` shows all stages in one table, before any data exists (scripts/training/planning/overview.py).
"""

import json
import logging
from pathlib import Path

from scripts.common.cli import parser, run
from scripts.common.disk import free_bytes
from scripts.common.files import read_json, write_json
from scripts.experiment.layout import PACKED_SPLITS
from scripts.experiment.machine_files import load_machine, load_monitoring
from scripts.experiment.model_folder import Shape, shape_of_folder
from scripts.experiment.settings.training import Stage
from scripts.training.planning.checks import check_validation
from scripts.training.planning.plan_stage import PlanInputs, part_plans, plan, with_layers
from scripts.training.planning.resolved_stage import split_rows
from scripts.training.planning.states import GIB, disk_warning


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--stage", required=True)
    arguments.add_argument("--machine", type=Path, required=True)
    arguments.add_argument("--monitoring", type=Path, required=True)
    arguments.add_argument("--settings", type=Stage.from_json, required=True)
    arguments.add_argument("--shape", type=json.loads, help="the model's shape, as the settings have it")
    arguments.add_argument("--folder", default="", help="the model's folder, where the settings have no shape")
    arguments.add_argument("--no-rope-layers", type=int, nargs="*", default=[])
    arguments.add_argument("--shards", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    args = arguments.parse_args()
    manifest = read_json(args.shards / "manifest.json")
    check_validation(args.stage, args.settings, args.shards, manifest)
    rows = [split_rows(manifest["splits"][split], args.settings) for split in PACKED_SPLITS]
    machine, monitoring = load_machine(args.machine), load_monitoring(args.monitoring)
    settings = with_layers(args.settings, args.no_rope_layers)
    shape = None
    if args.shape:
        shape = Shape(**args.shape)
    elif args.folder:
        shape = shape_of_folder(Path(args.folder))
    inputs = PlanInputs(args.stage, settings, machine, shape, *rows, monitoring)
    result = plan(inputs) | part_plans(manifest["splits"]["train"], inputs)
    free = free_bytes(args.out) / GIB
    result.setdefault("warnings", []).extend(disk_warning(inputs.resolve(), result, free))
    write_json(args.out, result)
    for warning in result.pop("warnings"):
        logging.warning(f"warning: {warning}")
    for key, value in result.items():
        text = f"{value:,}" if isinstance(value, int | float) else value or "unknown"
        logging.info(f"plan {args.stage}: {key} {text}")


if __name__ == "__main__":
    run(main)
