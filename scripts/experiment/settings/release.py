"""What a released model looks like: target `results/release/STAGE/manifest.json`, or `stagecraft release STAGE`."""

from typing import Annotated, Literal

from pydantic import Field

from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Record, Unique


class Release(Record):
    """What is written for those who get the model; nothing is released unless asked for."""

    gguf: Annotated[list[Literal["f16", "q8_0"]], Unique] = Field(
        [], description="Kinds of GGUF file, for llama.cpp and Ollama, beside the safetensors."
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto",
        description="Precision of the released weights. `auto`: that of the model, which for adapters is their base's;"
        " in `bf16` a merge rounds a part of a small update away, and the card says what it costs.",
    )
    licence: Text = Field("other", description="Licence of the model on its card, as Hugging Face names it.")
