"""Read the metrics that a training stage logged."""

import json
from pathlib import Path

from scripts.common.errors import UserError


def read_metrics(path: Path) -> list[dict]:
    """The logged steps of a stage, from its metrics.jsonl.

    Raises:
        UserError: the file is missing, or a line is not a JSON object with a `step`.
    """
    steps = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in lines:
            step = json.loads(line)
            step["step"] + 0  # raises if it is no number
            steps.append(step)
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: line {len(steps) + 1}: no logged step ({error})") from error
    return steps
