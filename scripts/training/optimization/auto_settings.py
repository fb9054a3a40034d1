"""Settings that are `auto`, and the number of steps: computed once, from the model's size and the data alone.

Nothing here depends on the machine, so `auto` gives the same numbers everywhere.
"""

import math

from scripts.experiment.settings.training import Stage

MAX_TOKENS = 2**22  # larger batches gain nothing at these sizes (Llama 2 and 3 train with 4 M tokens)
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
    rows = ROWS * round(min(batch, MAX_TOKENS) / length / ROWS)
    return max(ROWS, min(rows, MAX_TOKENS // length // ROWS * ROWS))


def used_rows(settings: Stage, rows: int) -> int:
    """How many of the `rows` packed training rows a stage uses."""
    return min(rows, settings.max_samples or rows)


def resolve_auto(settings: Stage, parameters: int | None, rows: int | None) -> Stage:
    """`settings` with numbers in place of `auto`, where the inputs are known; else the setting stays `auto`.

    Args:
        parameters: of the model, None before it exists.
        rows: packed training rows, None before they are packed.
    """
    update = {}
    if settings.learning_rate == "auto" and parameters:
        update["learning_rate"] = learning_rate(parameters)
    if settings.global_batch == "auto" and parameters and rows is not None:
        tokens = used_rows(settings, rows) * settings.sequence_length
        update["global_batch"] = global_batch(parameters, tokens, settings.sequence_length)
    return settings.model_copy(update=update)


def training_steps(settings: Stage, rows: int) -> int:
    """Optimizer steps of a stage with a known global batch, counted as transformers counts them."""
    if settings.steps is not None:
        return settings.steps
    return math.ceil(settings.epochs * math.ceil(used_rows(settings, rows) / settings.global_batch))
