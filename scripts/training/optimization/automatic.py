"""Settings that are `auto`, and the number of steps: worked out once, from the model's size and the data alone.

Nothing here depends on the machine, so `auto` gives the same science everywhere.
"""

import math

# 4 million tokens: beyond it larger batches buy nothing at these sizes (Llama 2 and 3 train with 4 M)
MOST_TOKENS = 2**22
ROWS = 8


def learning_rate(parameters: int) -> float:
    """5e-5 at 7e9 parameters, scaled with parameters^-0.25; to three digits."""
    return float(f"{5e-5 * (parameters / 7e9) ** -0.25:.3g}")


def global_batch(parameters: int, tokens: int, length: int) -> int:
    """Rows of `length` tokens per step: (millions of parameters x millions of tokens)^0.4 thousand tokens.

    In these units the rule stays within a factor of about two of DeepSeek LLM's fit for pretraining
    (arXiv 2401.02954, B = 0.2920 C^0.3271 tokens with C = 6 x parameters x tokens) from 0.5e9 to 7e9 parameters and
    50e6 to 10e9 tokens. Rounded to a multiple of 8 rows; at least 8 rows, at most 4,194,304 tokens.
    """
    batch = 1000 * (parameters / 1e6 * tokens / 1e6) ** 0.4
    rows = ROWS * round(min(batch, MOST_TOKENS) / length / ROWS)
    return max(ROWS, min(rows, MOST_TOKENS // length // ROWS * ROWS))


def used_rows(stage: dict, rows: int) -> int:
    """Packed training rows that a stage uses of the `rows` there are."""
    return min(rows, stage.get("max_samples", rows))


def resolved(stage: dict, parameters: int | None, rows: int | None) -> dict:
    """`stage` with numbers for `auto`, where what they follow from is known; else the setting is still `auto`.

    Args:
        parameters: of the model, None where it is not there yet.
        rows: packed training rows, None where they are not packed yet.
    """
    stage = dict(stage)
    if stage["learning_rate"] == "auto" and parameters:
        stage["learning_rate"] = learning_rate(parameters)
    if stage["global_batch"] == "auto" and parameters and rows is not None:
        tokens = used_rows(stage, rows) * stage["sequence_length"]
        stage["global_batch"] = global_batch(parameters, tokens, stage["sequence_length"])
    return stage


def steps_of(stage: dict, rows: int) -> int:
    """Optimizer steps of a stage with a known global batch, as transformers counts them."""
    if "steps" in stage:
        return stage["steps"]
    return math.ceil(stage["epochs"] * math.ceil(used_rows(stage, rows) / stage["global_batch"]))
