"""Settings of `corpus`: filters, split, and the datasets."""

import re
from datetime import date
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from scripts.experiment.settings.filter import Filter, Text, TextFilter
from scripts.experiment.settings.record import Number, Record, Unique

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
REPOSITORY_NAME, FILE_SEPARATOR = "<|repo_name|>", "<|file_sep|>"  # Qwen2.5-Coder's control tokens


class Deduplicate(Record):
    """Exact duplicates are always removed. Of each cluster of duplicates one document is kept: of a source with high
    priority first, then of one with a permissive licence, then the first by source and path."""

    near_duplicates: bool = Field(
        True,
        description="Whether similar documents are removed too; kept ones are never parted by the split.",
    )
    jaccard: Number = Field(
        0.7,
        gt=0,
        le=1,
        description="Documents are similar if they have at least this share of their word sequences in common.",
    )
    words: int = Field(5, ge=1, description="Words of a sequence.")
    permutations: int = Field(256, ge=1, description="Permutations of MinHash, by which similar documents are found.")
    recall: Number = Field(
        0.99, gt=0, lt=1, description="Share that is found of the pairs which are similar by exactly `jaccard`."
    )


def iso_date(value: Any) -> Any:
    """A date as text: YAML reads `2025-01-01` as a date. What is no date is refused here, any other type later."""
    text = value.isoformat() if isinstance(value, date) else value
    if isinstance(text, str) and not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        raise PydanticCustomError("no_date", "must be a day, as 2025-01-01, not {value}", {"value": repr(text)})
    if isinstance(text, str):
        try:
            date.fromisoformat(text)
        except ValueError as error:
            raise PydanticCustomError("no_date", "{value}: {error}", {"value": text, "error": str(error)}) from error
    return text


class Split(Record):
    """What is held out from training: shares by a hash of source and path, so that a document keeps its split when
    sources are added; whole repositories; or all that is newer than a day. Similar documents are never parted."""

    by: Literal["file", "repository", "time"] = Field(
        "file",
        description="What is assigned to a split: a file, all files of a source, or a file by the date of its first"
        " commit (sources of kind git alone; `after` is held out, the rest is for training and validation).",
    )
    validation: Number = Field(
        0.02, ge=0, lt=1, description="Share for validation: of the files, with `by: repository` of the sources."
    )
    test: Number = Field(
        0.02, gt=0, lt=1, description="Share for evaluation, as `validation`; without effect with `by: time`."
    )
    after: Annotated[str, BeforeValidator(iso_date)] | None = Field(
        None,
        description="Only with `by: time`: files first committed on this day (such as 2025-01-01, in UTC) or later are"
        " held out as test split.",
    )

    @model_validator(mode="after")
    def check_after(self) -> Self:
        if (self.by == "time") != (self.after is not None):
            raise PydanticCustomError("after", "`by: time` and `after` (a day, as 2025-01-01) go together")
        return self


class SourceDataset(Record):
    """What datasets from the sources have in common."""

    sources: Annotated[list[Text], Unique, Field(min_length=1)] | None = Field(
        None, description="Names of the sources whose documents it holds; all by default."
    )
    max_source_share: Number = Field(
        1,
        gt=0,
        le=1,
        description="Largest share of one source in the training examples; of larger ones, which examples stay follows"
        " from their names and the seed.",
    )
    filter: TextFilter | None = Field(
        None,
        description="Documents that it drops are left out of the training split; validation and test keep all, so that"
        " models of different filters are scored on the same documents.",
    )


class CodeDataset(SourceDataset):
    kind: Literal["code"] = Field(description="Plain documents.")
    fim_rate: Number = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of packed training pieces that become fill-in-the-middle (validation and test stay plain). A"
        " piece is a document, or a part of one that is longer than a row.",
    )
    spm_rate: Number = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of these with the suffix first, then prefix and middle (SPM); the others have prefix,"
        " suffix, middle (PSM), the only order of Qwen2.5-Coder.",
    )


class RepositoryDataset(SourceDataset):
    kind: Literal["repository"] = Field(
        description="Repositories as documents in Qwen2.5-Coder's form, each file after those that it imports. The"
        " base's tokenizer must have the control tokens of a repository's name and of the beginning of a file."
    )
    max_characters: int = Field(
        200_000, ge=1, description="Longest document (characters); a larger repository becomes several."
    )


InstructTask = Literal["analysis", "parts", "docstring_to_function", "function_to_docstring", "signature_to_body"]


class InstructDataset(SourceDataset):
    kind: Literal["instruct"] = Field(
        description="Chats with a question about what a file does, answered from its syntax tree."
    )
    language: Literal["zh", "en"] = Field("zh", description="Language of prompt and answer.")
    tasks: dict[InstructTask, Annotated[Number, Field(gt=0)]] = Field(
        {"analysis": 1},
        min_length=1,
        description="Tasks and their weights, by which their shares of the examples come out: `analysis` of a file,"
        " `parts` (what each documented function is for), and of documented functions `docstring_to_function`,"
        " `function_to_docstring` and `signature_to_body`.",
    )
    phrasings: int = Field(1, ge=1, le=20, description="Phrasings of a request; each task has 20.")
    system: str | None = Field(None, description="System prompt; by default a fixed one in the chosen `language`.")
    max_characters: int = Field(50_000, ge=1, description="Documents longer than this are left out (characters).")


class OwnDataset(Record):
    """What datasets from files of the user's own have in common."""

    hub: Text | None = Field(None, description="Name of a hub dataset.")
    revision: str | None = Field(
        None, pattern="^[0-9a-f]{40}$", description="Commit of the hub dataset; required with `hub`."
    )
    split: str = Field("train", description="Which split of a saved folder or hub dataset is read.")
    sha256: Sha256 | None = Field(None, description="Hash of the content at `path`, checked when given.")
    validation: Number = Field(0.02, ge=0, lt=1, description="Share for validation, by a hash of the content.")
    test: Number = Field(0.02, ge=0, lt=1, description="Share for evaluation, by a hash of the content.")


class ChatDataset(OwnDataset):
    kind: Literal["chat"] = Field(
        description="Chats of your own; give `path`, or `hub` and `revision`. Records have `messages` with a role and"
        " content each, or `conversations`, or `instruction` and `output`."
    )
    path: Text | None = Field(
        None,
        description="A .json, .jsonl, .jsonl.gz, .csv or .parquet file, a folder of these, or a folder saved by the"
        " datasets library.",
    )
    max_samples: int | None = Field(
        None, ge=1, description="Most chats, over all splits; which ones follows from content and seed."
    )


class TextDataset(OwnDataset):
    kind: Literal["text"] = Field(description="Plain texts of your own; give `path`, or `hub` and `revision`.")
    path: Text | None = Field(
        None,
        description="A .txt, .md, .json, .jsonl, .jsonl.gz, .csv or .parquet file, a folder of these, or a folder saved"
        " by the datasets library.",
    )
    text_column: Text = Field("text", description="The field or column that holds the text.")
    max_megabytes: Number | None = Field(
        None, gt=0, description="Most text that is kept (MB of UTF-8); reading stops there, in the order of the files."
    )


Dataset = Annotated[
    CodeDataset | RepositoryDataset | InstructDataset | ChatDataset | TextDataset, Field(discriminator="kind")
]
DatasetName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class Corpus(Record):
    filter: Filter = Filter()
    deduplicate: Deduplicate = Deduplicate()
    split: Split = Split()
    compose: dict[DatasetName, Dataset] = Field(min_length=1, description="The datasets by name.")
    parquet: bool = Field(
        False, description="Whether filtered documents, splits and datasets are also written as Parquet."
    )
