"""Checks of a stage against its machine and its data, before it trains."""

from pathlib import Path

from scripts.common.cli import UserError
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.training import Stage


def check_sharding(name: str, settings: Stage, machine: Machine) -> None:
    """Check that the stage can run with the machine's sharding.

    Raises:
        UserError: the weights are quantized, or the optimizer is adamw_8bit, and the machine file shards.
    """
    if machine.sharding in ("none", "auto"):
        return
    key, remedy = f"training.train.{name}", "use `sharding: none` in the machine file"
    if settings.quantize != "none":
        raise UserError(f"{key}.quantize: quantized weights cannot be sharded; {remedy}")
    if settings.optimizer == "adamw_8bit":
        raise UserError(f"{key}.optimizer: adamw_8bit cannot be sharded; {remedy}, or take adamw")


def check_validation(name: str, settings: Stage, shards: Path, manifest: dict) -> None:
    """Check that a stage that selects by its validation loss has validation rows.

    Args:
        manifest: of the `shards`.

    Raises:
        UserError: it has none; the line says how many chats were too long for a row.
    """
    counts = manifest["splits"]["validation"]
    for key in ("keep_best", "early_stopping"):
        if getattr(settings, key) and not counts["targets"]:
            raise UserError(
                f"training.train.{name}.{key}: {shards} has no validation rows, {counts['too_long']:,} chats are longer"
                f" than {manifest['length']:,} tokens; raise the dataset's `validation`, or `sequence_length`"
            )
