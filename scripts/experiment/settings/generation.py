"""Settings of how a model generates texts."""

from typing import Literal

from pydantic import Field

from scripts.experiment.settings.record import Number, Record

Engine = Literal["transformers", "vllm"]
ENGINE = Field(
    "transformers",
    description="What runs generation. vLLM is made for throughput on GPUs and has an environment of its own, which the"
    " machine file names (`vllm`).",
)
REPETITION = "Divides the logits of tokens that the text already has where they are positive, else multiplies them."


class Generation(Record):
    """How a model generates texts."""

    max_new_tokens: int = Field(512, ge=1, description="Most tokens generated.")
    temperature: Number = Field(0, ge=0, description="Sampling temperature; 0 is greedy.")
    top_p: Number = Field(1, gt=0, le=1, description="Sample from the likeliest tokens that hold this probability.")
    repetition_penalty: Number = Field(1.0, gt=0, description=REPETITION)
    beams: int = Field(1, ge=1, description="Beams of a beam search; more than one only with temperature 0.")
    samples: int = Field(1, ge=1, description="Completions per prompt; more than one only with a temperature.")
    engine: Engine = ENGINE


class InPlace(Generation):
    """How a model writes a part of a file in place."""

    form: Literal["fim", "plain"] = Field(
        "fim",
        description="`fim` shows the text before and after the answer as fill-in-the-middle, `plain` only the text"
        " before it.",
    )
    prompt_characters: int = Field(6000, ge=1, description="Most characters of the file in a prompt.")
    max_new_tokens: int = Field(256, ge=1, description="Most tokens generated.")
