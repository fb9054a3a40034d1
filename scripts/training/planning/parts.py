"""Tokens and epochs of each part of a mixture over all steps of a stage.

part_plans(read_json(shards / "manifest.json")["splits"]["train"], given)
"""

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
    passes = inputs.steps * inputs.resolved.global_batch / train["rows"]
    return {
        "parts": {
            name: {"tokens": round(part["tokens"] * passes), "epochs": round(part["epochs"] * passes, 4)}
            for name, part in train["parts"].items()
        }
    }
