"""Settings of how a model generates texts."""

from typing import Literal

from pydantic import Field

from scripts.experiment.settings.record import Number, Record

REPETITION = (
    "Penalty for tokens that are already in the text: positive logits are divided by it, negative ones multiplied."
)


class Generation(Record):
    """How a model generates texts."""

    max_new_tokens: int = Field(512, ge=1, description="Maximum number of generated tokens.")
    temperature: Number = Field(0, ge=0, description="Sampling temperature; 0 is greedy.")
    top_p: Number = Field(
        1,
        gt=0,
        le=1,
        description="Sample from the most likely tokens whose probabilities add up to this (nucleus sampling).",
    )
    repetition_penalty: Number = Field(1.0, gt=0, description=REPETITION)
    samples: int = Field(
        1, ge=1, description="Generated texts per prompt; more than one only with a temperature above 0."
    )


class InPlace(Generation):
    """How a model writes a part of a file in place."""

    form: Literal["fim", "plain"] = Field(
        "fim",
        description="`fim`: the prompt has the text before and after the answer, as fill-in-the-middle; `plain`:"
        " only the text before it.",
    )
    prompt_characters: int = Field(6000, ge=1, description="Maximum number of characters of the file in a prompt.")
    max_new_tokens: int = Field(256, ge=1, description="Maximum number of generated tokens.")
