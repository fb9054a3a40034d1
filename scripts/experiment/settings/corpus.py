"""Settings of `corpus`: filters, split, and the datasets."""

import re
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from scripts.experiment.settings.record import Number, Record, Text, Unique
from scripts.languages import BY_CONTENT, extensions_of, languages, some_names

Extension = Annotated[str, Field(pattern=r"^\.[A-Za-z0-9+_-]+$")]

# folders of tools, and those that linguist's vendor.yml calls vendored
EXCLUDED = [
    *(".git", ".hg", ".svn", "__pycache__", "__MACOSX", ".venv", "venv", ".tox", ".nox", ".eggs", ".idea", ".vscode"),
    *("vendor", "vendors", "vendored", "_vendor", "_vendored", "third_party", "third-party", "thirdparty", "3rdparty"),
    *("3rd_party", "deps", "dependencies", "extern", "external", "externals", "Godeps", "Pods", "Carthage", "dist"),
    *("node_modules", "bower_components", "site-packages", ".yarn"),
]


def check_language(name: str) -> str:
    if name not in languages() and name != BY_CONTENT:
        known = f"{some_names(name)}, {BY_CONTENT}"
        text = "must be a language, such as {known}, not {name}"
        raise PydanticCustomError("language", text, {"known": known, "name": repr(name)})
    return name


def in_order(names: list[str]) -> list[str]:
    """The languages sorted, so that another order of them reruns nothing; each must have files of its own."""
    for name in names:
        if not extensions_of([name]):
            text = "no file's name tells {name}; say in `extensions` how its files end"
            raise PydanticCustomError("no_ending", text, {"name": name})
    return sorted(names)


Encoding = Literal["gbk", "big5", "shift-jis", "euc-jp", "euc-kr", "latin-1", "utf-16"]
LanguageName = Annotated[str, AfterValidator(check_language)]


class Filter(Record):
    """Which of a repository's files are kept. If there are several reasons to drop a file, the first one is counted."""

    min_characters: int = Field(100, ge=0, description="Minimum number of characters.")
    max_characters: int = Field(
        1_000_000,
        ge=1,
        description="Maximum number of characters. Hand-written files of more than 50,000 are few, but hold half of"
        " the bytes of many repositories.",
    )
    min_lines: int = Field(10, ge=0, description="Minimum number of lines.")
    languages: Annotated[list[LanguageName], Unique, AfterValidator(in_order), Field(min_length=1)] | None = Field(
        None,
        description="Languages whose files are read: those of scripts/languages/ and of Pygments. By default all but"
        " formats of data and settings, as JSON and YAML.",
    )
    extensions: dict[Extension, LanguageName] | None = Field(
        None,
        min_length=1,
        description="In place of `languages`: file name extensions that are read, and the language of"
        " each, or `c_or_cpp`, with which the content decides.",
    )
    excluded_folders: list[str] = Field(
        [],
        description="Names of folders, at any depth and in upper or lower case, that are not read, beside those of"
        " tools and of others' code (linguist), such as `.venv`, `vendor` and `third_party`.",
    )
    only_excluded_folders: list[str] | None = Field(
        None, description="In place of all names that are known and of `excluded_folders`: `[]` reads every folder."
    )
    max_bytes: int = Field(1_000_000, ge=1, description="Files of this size or larger are dropped (bytes).")
    licences: Annotated[list[Text], Unique, Field(min_length=1)] | None = Field(
        None,
        description="SPDX names of the licences whose files are kept; `permissive` stands for all permissive"
        " licences, `NOASSERTION` for files whose licence is unknown. By default files of every licence"
        " are kept.",
    )
    encodings: Annotated[list[Encoding], Unique] = Field(
        [],
        description="Encodings that are converted to UTF-8 if the detector is sure of them. Files in any other"
        " encoding are dropped; by default only UTF-8 is kept.",
    )
    secrets: Literal["replace", "keep"] = Field(
        "replace",
        description="`replace` replaces keys, tokens and passwords by `<API_KEY>`, `<TOKEN>`, `<PRIVATE_KEY>`,"
        " `<PASSWORD>`, e-mail and IP addresses by such of nobody, and counts them;"
        " `keep` leaves them in the text.",
    )
    decontaminate: bool | Annotated[list[Text], Field(min_length=1)] = Field(
        False,
        description="Whether to drop documents that share a sequence of words with a problem of a benchmark, which the"
        " rejects name: `true` for those of `evaluation.code` and `evaluation.keywords`, or files of problems: JSON"
        " lines or a JSON list, also gzipped, or YAML.",
    )

    @cached_property
    def language_by_ending(self) -> dict[str, str]:
        """Extension, or whole name of a file → its language, or `c_or_cpp`."""
        return self.extensions or extensions_of(self.languages)

    @cached_property
    def unread_folders(self) -> set[str]:
        """The names of folders that are not read, in lower case."""
        names = [*EXCLUDED, *self.excluded_folders]
        if self.only_excluded_folders is not None:
            names = self.only_excluded_folders
        return {name.lower() for name in names}

    def read_languages(self) -> set[str]:
        """The languages whose files are read."""
        return {"c" if language == BY_CONTENT else language for language in self.language_by_ending.values()}


Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def iso_date(value: Any) -> Any:
    """A date as text: YAML reads `2025-01-01` as a date. What is no date is refused here, any other type later."""
    text = value.isoformat() if isinstance(value, date) else value
    if isinstance(text, str) and not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        raise PydanticCustomError("no_date", "must be a day, such as 2025-01-01, not {value}", {"value": repr(text)})
    if isinstance(text, str):
        try:
            date.fromisoformat(text)
        except ValueError as error:
            raise PydanticCustomError("no_date", "{value}: {error}", {"value": text, "error": str(error)}) from error
    return text


class Split(Record):
    """What is held out from training. By file: shares by a hash of source and path, a test going with its module, so
    that a document keeps its split when sources are added. By repository: whole sources. By time: files that are newer
    than a day."""

    by: Literal["file", "repository", "time"] = Field(
        "file",
        description="What is assigned to a split: each file, all files of a source together, or each file by the"
        " date of its first commit (only for sources of kind git; files from the day `after` on are held"
        " out, the others are for training and validation).",
    )
    validation: Number = Field(
        0.02, ge=0, lt=1, description="Share of the files for validation; with `by: repository` share of the sources."
    )
    test: Number = Field(
        0.02,
        gt=0,
        lt=1,
        description="Share of the files or sources for evaluation (the test split); not used with `by: time`.",
    )
    hold_out: Annotated[list[Text], Unique] = Field(
        [],
        description="Only with `by: file`: patterns of paths, as `tests/*` or `my-tool/src/*`, of which `*` stands for"
        " any part. The files that one of them matches are the test split, in place of the share `test`.",
    )
    after: Annotated[str, BeforeValidator(iso_date)] | None = Field(
        None,
        description="Only with `by: time`: files first committed on this day (such as 2025-01-01, in UTC) or later"
        " are the test split.",
    )

    @model_validator(mode="after")
    def check_after(self) -> Self:
        if (self.by == "time") != (self.after is not None):
            raise PydanticCustomError(
                "after", "`by: time` requires `after` (a day, such as 2025-01-01), and `after` requires `by: time`"
            )
        if self.hold_out and self.by != "file":
            raise PydanticCustomError("hold_out", "`hold_out` goes with `by: file`, not with `by: " + self.by + "`")
        return self

    @property
    def unit(self) -> str:
        """What intervals of scores on the test split are over: other files, or other repositories."""
        if self.by == "repository":
            return "repository"
        return "file"


class SourceDataset(Record):
    """What datasets from the sources have in common."""

    sources: Annotated[list[Text], Unique, Field(min_length=1)] | None = Field(
        None, description="Names of the sources whose documents are in the dataset; all by default."
    )


class CodeDataset(SourceDataset):
    kind: Literal["code"] = Field(description="Plain documents.")
    fim_rate: Number = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of packed training pieces that become fill-in-the-middle (validation and test stay"
        " plain). A piece is a document, or a part of a document that is longer than a row.",
    )
    spm_rate: Number = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of the fill-in-the-middle pieces in the order suffix, prefix, middle (SPM). The others"
        " have the order prefix, suffix, middle (PSM), the only one of Qwen2.5-Coder.",
    )


InstructTask = Literal["analysis", "function_to_docstring", "signature_to_body"]


class InstructDataset(SourceDataset):
    kind: Literal["instruct"] = Field(
        description="Chats with a question about what a file does, answered from its syntax tree."
    )
    language: Literal["zh", "en"] = Field("zh", description="Language of prompt and answer.")
    tasks: dict[InstructTask, Annotated[Number, Field(gt=0)]] = Field(
        {"function_to_docstring": 1, "signature_to_body": 1},
        min_length=1,
        description="Tasks and their weights; a task's share of the examples is its weight over the sum of the"
        " weights. `function_to_docstring` and `signature_to_body` are about one documented function; `analysis` asks"
        " what a file does, and its answer names what the file defines.",
    )
    system: str | None = Field(None, description="System prompt; by default a fixed one in the chosen `language`.")
    max_characters: int = Field(50_000, ge=1, description="Documents longer than this are left out (characters).")


class OwnDataset(Record):
    """What datasets from files of the user's own have in common."""

    hub: Text | None = Field(None, description="Name of a hub dataset.")
    revision: str | None = Field(
        None, pattern="^[0-9a-f]{40}$", description="Commit of the hub dataset; required with `hub`."
    )
    split: str = Field("train", description="Split of the saved folder or hub dataset that is read.")
    sha256: Sha256 | None = Field(None, description="sha256 of the content at `path`; checked if given.")
    validation: Number = Field(
        0.02, ge=0, lt=1, description="Share for validation, chosen by a hash of a chat's first question or of a text."
    )
    test: Number = Field(
        0.02, ge=0, lt=1, description="Share for evaluation, chosen by a hash of a chat's first question or of a text."
    )
    test_path: Text | None = Field(
        None, description="Files of your own that are held out, in place of the share `test`; only with `path`."
    )

    @property
    def paths(self) -> list[Path]:
        """The files or folders that are read."""
        return [Path(path) for path in (self.path, self.test_path) if path]


# fields of a record of chats, and those of a message (scripts/corpus/formats/chat_forms.py)
CHAT_FIELDS = (
    *("messages", "conversations", "prompt", "completion", "instruction", "input", "output", "system", "history"),
    *("role", "content"),
)


class ChatDataset(OwnDataset):
    kind: Literal["chat"] = Field(
        description="Chats of your own; give `path`, or `hub` and `revision`. Records have `messages` with a role and"
        " content each, or `conversations`, or `prompt` and `completion`, or `instruction` and `output`."
    )
    columns: dict[Literal[*CHAT_FIELDS, "group"], Text] = Field(
        {},
        description="Names of the records' fields where they are not those: `{prompt: question, completion: answer}`,"
        " or with `role` and `content` those of a message. `group`: a field whose equal values keep chats in"
        " one split.",
    )
    path: Text | None = Field(
        None,
        description="A .json, .jsonl, .jsonl.gz, .csv or .parquet file, a folder of these, or a folder saved by the"
        " datasets library.",
    )
    max_samples: int | None = Field(
        None,
        ge=1,
        description="Maximum number of chats in all splits together; content and seed decide which are used.",
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
        None, gt=0, description="Maximum amount of text (MB of UTF-8); files are read in order until it is reached."
    )


Dataset = Annotated[CodeDataset | InstructDataset | ChatDataset | TextDataset, Field(discriminator="kind")]
DatasetName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")]


class Corpus(Record):
    filter: Filter = Filter()
    split: Split = Split()
    compose: dict[DatasetName, Dataset] = Field(min_length=1, description="The datasets by name.")
