"""Settings of `tokens`: the tokenizer of a model that is trained from scratch."""

from pydantic import Field

from scripts.experiment.settings.record import Number, Record


class Tokenizer(Record):
    """A byte-level BPE trained on the corpus (without `sources`, on the datasets) where the base model is `scratch`;
    any other base model brings its own tokenizer, and these settings are unused."""

    vocab_size: int = Field(8192, ge=512, description="Size of the vocabulary with its special tokens.")
    sample_megabytes: Number = Field(20, gt=0, description="Training text that the tokenizer is learned from (MB).")


class Tokens(Record):
    tokenizer: Tokenizer = Tokenizer()
