"""Settings of `tokens`: the tokenizer, mixtures of packed datasets, the rows of an experiment of data alone."""

from typing import Annotated

from pydantic import Field

from scripts.experiment.settings.corpus import DatasetName
from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Number, Record, Unique


class Tokenizer(Record):
    """A byte-level BPE trained on the corpus (without `sources`, on the datasets) where the base model is `scratch` or
    there is no `training`; any other base model brings its own tokenizer, and these settings are unused."""

    folder: Text | None = Field(
        None,
        description="Only without `training`: a folder with the files of an existing tokenizer, which is taken instead"
        " (`tokenizer.json`, `tokenizer_config.json`; no weights).",
    )

    vocab_size: int = Field(8192, ge=512, description="Size of the vocabulary with its special tokens.")
    sample_megabytes: Number = Field(20, gt=0, description="Training text that the tokenizer is learned from (MB).")


class Part(Record):
    """A dataset of a mixture."""

    weight: Number = Field(gt=0, description="Share of the mixture's training rows, over the sum of all weights.")
    max_epochs: Number = Field(
        1, gt=0, description="Most passes over the dataset's rows in one pass over the mixture; 0.5 is half of them."
    )


class Mixture(Record):
    """Rows of several datasets in one shuffled set, which a stage names as its `data`."""

    parts: dict[Text, Part] = Field(
        min_length=1, description="The datasets by name; a general one beside the new one is a replay."
    )
    million_tokens: Number | None = Field(
        None,
        gt=0,
        description="Size of the training split (millions of tokens, padding counted). By default as large as"
        " `max_epochs` of all parts allow.",
    )


class Tokens(Record):
    tokenizer: Tokenizer = Tokenizer()
    mix: dict[DatasetName, Mixture] = Field({}, description="Mixtures of datasets by name.")
    sequence_lengths: Annotated[list[Annotated[int, Field(ge=16)]], Unique] | None = Field(
        None,
        min_length=1,
        description="Only without `training`, where each stage names its own: lengths of packed rows (tokens); every"
        " dataset and mixture is packed at each. By default 4096.",
    )
