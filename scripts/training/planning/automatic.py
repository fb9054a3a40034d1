"""The machine file of a stage that is about to start, with `auto` replaced as its plan has it.

The launcher does so (scripts/training/launch.py), not the stage: how a plan is made is no part of a stage's code, so a
better plan reruns nothing.
"""

import argparse
import logging
from pathlib import Path

import yaml

from scripts.common.cli import UserError
from scripts.common.files import atomic, read_json
from scripts.experiment.machine_files import load_machine
from scripts.experiment.settings.training import Shape, Stage
from scripts.training.planning.stage import Given, chosen


def switched_off(config: dict) -> tuple[int, ...]:
    """The layers without RoPE in a SmolLM3's config.json, where 0 stands for such a layer."""
    return tuple(layer for layer, on in enumerate(config.get("no_rope_layers") or []) if not on)


def config_of(folder: Path) -> dict:
    """The config.json of a model folder, or of the folder whose model its adapter was trained on."""
    adapter = read_json(folder / "manifest.json").get("adapter")
    return read_json((folder / adapter["base"] if adapter else folder) / "config.json")


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
    known = argparse.ArgumentParser()
    known.add_argument("--stage")
    known.add_argument("--settings", type=Stage.from_json)
    for folder in ("--origin", "--shards", "--work"):
        known.add_argument(folder, type=Path)
    told, _ = known.parse_known_args(arguments)
    config = config_of(told.origin)
    rows = read_json(told.shards / "manifest.json")["splits"]["train"]["rows"]
    shape, layers = Shape.from_config(config), switched_off(config)
    option = chosen(Given(told.stage, told.settings, machine, shape, rows, no_rope_layers=layers))
    if option is None:
        raise UserError(
            f"{path}: `auto` needs a model whose config.json has what a plan needs, {told.origin} has not; "
            "give `sharding` and `micro_batch`"
        )
    found = option.machine
    logging.info(f"auto: sharding {found.sharding}, offload {found.offload}, micro-batch {found.micro_batch}")
    copy = told.work / f"machine-{path.stem}.yaml"
    with atomic(copy) as temporary:
        temporary.write_text(yaml.safe_dump(found.model_dump(mode="json", exclude_none=True)), encoding="utf-8")
    return copy
