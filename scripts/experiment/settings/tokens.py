"""Settings of `tokens`: the tokenizer, mixtures of packed datasets, the rows of an experiment of data alone."""

from typing import Annotated

from pydantic import Field

from scripts.experiment.settings.corpus import DatasetName
from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Number, Record, Unique


class Tokenizer(Record):
    """A byte-level BPE tokenizer that is trained on the corpus (without `sources`, on the datasets). Used if the base
    model is `scratch` or there is no `training`; any other base model has its own tokenizer."""

    folder: Text | None = Field(
        None,
        description="Only without `training`: folder of an existing tokenizer to use instead (`tokenizer.json`,"
        " `tokenizer_config.json`; no weights are needed).",
    )

    vocab_size: int = Field(
        8192, ge=278, description="Size of the vocabulary with its special tokens: 256 bytes and 22 tokens at least."
    )


class Part(Record):
    """A dataset of a mixture."""

    weight: Number = Field(
        gt=0, description="The dataset's share of the mixture's training rows is this over the sum of all weights."
    )
    max_epochs: Number = Field(
        1,
        gt=0,
        description="Maximum number of passes over the dataset's rows in one pass over the mixture; with 0.5 at most"
        " half of the rows are used.",
    )


class Mixture(Record):
    """Rows of several datasets in one shuffled set, which a stage names as its `data`."""

    parts: dict[Text, Part] = Field(
        min_length=1,
        description="The datasets by name. To limit forgetting, mix a general dataset with the new one (replay).",
    )
    million_tokens: Number | None = Field(
        None,
        gt=0,
        description="Size of the training split (millions of tokens, padding included). By default the largest that"
        " the `max_epochs` of all parts allow.",
    )


class Tokens(Record):
    tokenizer: Tokenizer = Tokenizer()
    mix: dict[DatasetName, Mixture] = Field({}, description="Mixtures of datasets by name.")
    sequence_lengths: Annotated[list[Annotated[int, Field(ge=16)]], Unique] | None = Field(
        None,
        min_length=1,
        description="Lengths of packed rows (tokens), by default 4096; every dataset and mixture is packed at each"
        " of them. Only without `training`; with it, each stage has its own `sequence_length`.",
    )
