"""What a stage takes of each part of a mixture: tokens and epochs over all its steps.

part_plans(read_json(shards / "manifest.json")["splits"]["train"], given)
"""

from scripts.training.planning.stage import Given


def part_plans(train: dict, given: Given) -> dict:
    """`parts` of the plan of a stage on a mixture; nothing on a dataset.

    Args:
        train: the counts of the training split in the shards' manifest.

    Returns:
        {"parts": {part: tokens without padding, and epochs over its own rows}}, in the mean over the stage, whose last
        pass over the mixture may end early.
    """
    if "parts" not in train or not given.steps or not train["rows"]:
        return {}
    passes = given.steps * given.resolved.global_batch / train["rows"]
    return {
        "parts": {
            name: {"tokens": round(part["tokens"] * passes), "epochs": round(part["epochs"] * passes, 4)}
            for name, part in train["parts"].items()
        }
    }
