"""Tokens and epochs of each part of a mixture over all steps of a stage.

part_plans(read_json(shards / "manifest.json")["splits"]["train"], given)
"""

import math

from scripts.training.optimization.auto_settings import used_rows
from scripts.training.planning.stage import PlanInputs


def part_plans(train: dict, inputs: PlanInputs) -> dict:
    """`parts` of the plan of a stage on a mixture; empty for a stage on a dataset.

    Args:
        train: the counts of the training split in the shards' manifest.

    Returns:
        {"parts": {part: {"tokens": without padding, "epochs": over its own rows}}}; both are averages, as the last pass
        over the mixture may end early.
    """
    if "parts" not in train or not inputs.steps or not train["rows"]:
        return {}
    batch, used = inputs.resolved.global_batch, used_rows(inputs.settings, train["rows"])
    full_passes, extra_steps = divmod(
        inputs.steps, math.ceil(used / batch)
    )  # the last step of a pass has the rows that are left
    passes = (full_passes * used + extra_steps * batch) / train["rows"]
    return {
        "parts": {
            name: {"tokens": round(part["tokens"] * passes), "epochs": round(part["epochs"] * passes, 4)}
            for name, part in train["parts"].items()
        }
    }
