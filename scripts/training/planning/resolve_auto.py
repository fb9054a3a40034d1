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
from scripts.experiment.machine_files import load_machine
from scripts.experiment.no_effect_settings import add_no_effect_options, with_no_effect_options
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.record import as_json
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.planning.plan_stage import PlanInputs, choose_option, plan

PLAN = "STAGECRAFT_PLAN"  # the environment variable by which the launcher hands the plan to the stage


def switched_off(config: dict) -> tuple[int, ...]:
    """The layers without RoPE in a SmolLM3's config.json, where 0 stands for such a layer."""
    return tuple(layer for layer, on in enumerate(config.get("no_rope_layers") or []) if not on)


def config_of(folder: Path) -> dict:
    """The config.json of a model folder, or of the folder whose model its adapter was trained on."""
    adapter = read_json(folder / "manifest.json").get("adapter")
    return read_json((folder / adapter["base"] if adapter else folder) / "config.json")


def stage_arguments(arguments: list[str]) -> argparse.Namespace:
    """The arguments of scripts/training/train.py that a plan depends on; None for those that are missing."""
    known = argparse.ArgumentParser()
    known.add_argument("--stage")
    known.add_argument("--settings", type=Stage.from_json)
    add_no_effect_options(known)
    for folder in ("--origin", "--shards", "--work"):
        known.add_argument(folder, type=Path)
    args = known.parse_known_args(arguments)[0]
    args.settings = args.settings and with_no_effect_options(args.settings, args)
    return args


def plan_inputs(machine: Machine, args: argparse.Namespace) -> PlanInputs:
    """The inputs of the plan of a stage whose data and origin exist."""
    config = config_of(args.origin)
    rows = [read_json(args.shards / "manifest.json")["splits"][split]["rows"] for split in PACKED_SPLITS]
    layers = switched_off(config)
    return PlanInputs(args.stage, args.settings, machine, Shape.from_config(config), *rows, no_rope_layers=layers)


def plan_as_json(path: Path, arguments: list[str]) -> str:
    """The plan that a stage starts with, which goes into its summary.json; empty where it cannot be planned.

    Where a plan has no figure for the machine's speed, the model is not traced, which takes seconds. What cannot be
    planned is not refused here: the stage itself says what is wrong.

    Args:
        path: of the machine file, without `auto`.
        arguments: of scripts/training/train.py.
    """
    args, machine = stage_arguments(arguments), load_machine(path)
    if None in (args.stage, args.settings, args.origin, args.shards):
        return ""
    with suppress(UserError):
        planned = plan(plan_inputs(machine, args), traced=bool(machine.gpus or machine.cpu_tflops))
        return as_json(planned | {"machine": path.stem})
    return ""


def without_auto(path: Path, arguments: list[str]) -> Path:
    """The machine file at `path`, or where it says `auto` a copy with what makes the stage fastest and fits.

    Args:
        arguments: of scripts/training/train.py; the copy goes to the folder that is its `--work`.

    Raises:
        UserError: nothing fits, or the model is of a kind that cannot be planned.
    """
    machine = load_machine(path)
    if "auto" not in (machine.sharding, machine.micro_batch):
        return path
    args = stage_arguments(arguments)
    option = choose_option(plan_inputs(machine, args))
    if option is None:
        raise UserError(
            f"{path}: `auto` needs a model with a complete config.json, which {args.origin} has not; "
            "give `sharding` and `micro_batch`"
        )
    chosen = option.machine
    logging.info(f"auto: sharding {chosen.sharding}, offload {chosen.offload}, micro-batch {chosen.micro_batch}")
    copy = args.work / f"machine-{path.stem}.yaml"
    with atomic(copy) as temporary:
        temporary.write_text(yaml.safe_dump(chosen.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
    return copy
