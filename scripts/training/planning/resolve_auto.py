"""The plan of a stage that is about to start: kept for the report, and `auto` of the machine file replaced by it.

The launcher does both (scripts/training/launch.py), not the stage: how a plan is made is no part of a stage's code, so
a better plan reruns nothing.
"""

import argparse
import logging
from contextlib import suppress
from pathlib import Path

import yaml

from scripts.common.errors import UserError
from scripts.common.files import atomic, read_json
from scripts.experiment.layout import PACKED_SPLITS
from scripts.experiment.machine_files import load_machine, load_monitoring
from scripts.experiment.model_folder import shape_of_folder
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import as_json
from scripts.training.planning.plan_stage import PlanInputs, choose_option, plan, with_layers

PLAN = "STAGECRAFT_PLAN"  # the environment variable by which the launcher hands the plan to the stage


def plan_inputs(machine: Machine, args: argparse.Namespace) -> PlanInputs:
    """The inputs of the plan of a stage whose data and origin exist."""
    adapter = read_json(args.origin / "manifest.json").get("adapter")
    folder = args.origin
    if adapter:
        folder = args.origin / adapter["base"]
    rows = [read_json(args.shards / "manifest.json")["splits"][split]["rows"] for split in PACKED_SPLITS]
    # of SmolLM3, where 0 stands for a layer without RoPE
    layers = [layer for layer, on in enumerate(read_json(folder / "config.json").get("no_rope_layers") or []) if not on]
    settings, shape = with_layers(args.settings, layers), shape_of_folder(folder)
    return PlanInputs(args.stage, settings, machine, shape, *rows, load_monitoring(args.monitoring))


def plan_as_json(path: Path, args: argparse.Namespace) -> str:
    """The plan that a stage starts with, which goes into its summary.json; empty where it cannot be planned.

    What cannot be planned is not refused here: the stage itself says what is wrong.

    Args:
        path: of the machine file, without `auto`.
        args: of scripts/training/train.py.
    """
    machine = load_machine(path)
    with suppress(UserError):
        return as_json(plan(plan_inputs(machine, args)) | {"machine": path.stem})
    return ""


def without_auto(path: Path, args: argparse.Namespace) -> Path:
    """The machine file at `path`, or where it says `auto` a copy with what makes the stage fastest and fits.

    Args:
        args: of scripts/training/train.py; the copy goes to its work folder.

    Raises:
        UserError: nothing fits, or the model is of a kind that cannot be planned.
    """
    machine = load_machine(path)
    if "auto" not in (machine.sharding, machine.micro_batch):
        return path
    option = choose_option(plan_inputs(machine, args))
    if option is None:
        raise UserError(
            f"{path}: `auto` needs a model whose memory can be planned, as that of {args.origin} cannot; "
            "give `sharding` and `micro_batch`"
        )
    chosen = option.machine
    logging.info(f"auto: sharding {chosen.sharding}, offload {chosen.offload}, micro-batch {chosen.micro_batch}")
    copy = args.work / f"machine-{path.stem}.yaml"
    with atomic(copy) as temporary:
        temporary.write_text(yaml.safe_dump(chosen.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
    return copy
