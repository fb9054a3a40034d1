"""Settings of `tokens`: the tokenizer, and mixtures of packed datasets."""

from pydantic import Field

from scripts.experiment.settings.corpus import DatasetName
from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Number, Record


class Tokenizer(Record):
    """A byte-level BPE tokenizer that is trained on the corpus (without `sources`, on the datasets). Used if the base
    model is `scratch`; any other base model has its own tokenizer."""

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
