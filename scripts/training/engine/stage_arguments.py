"""The command line of scripts/training/train.py, which the launcher reads too: a plan depends on it."""

from argparse import ArgumentParser
from pathlib import Path

from scripts.common.cli import parser
from scripts.experiment.machine_files import MONITORING
from scripts.experiment.settings.training import Stage


def stage_parser(description: str = "") -> ArgumentParser:
    """The options of a stage, but for `--machine` and `--threads`, which the launcher adds for each process."""
    arguments = parser(description)
    arguments.add_argument("--stage", required=True)
    arguments.add_argument("--settings", type=Stage.from_json, required=True)
    arguments.add_argument("--seed", type=int, required=True)
    arguments.add_argument("--code", required=True)
    arguments.add_argument("--origin", type=Path, required=True)
    arguments.add_argument("--shards", type=Path, required=True)
    arguments.add_argument("--work", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--monitoring", type=Path, default=MONITORING / "default.yaml")
    return arguments
