"""Settings of `corpus.filter`: what is kept of a repository's files, and what is done with it."""

from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from scripts.experiment.settings.record import Record, Unique
from scripts.languages import BY_CONTENT, extensions_of, languages, some_names

Extension = Annotated[str, Field(pattern=r"^\.[A-Za-z0-9+_-]+$")]
Text = Annotated[str, Field(min_length=1)]

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
        EXCLUDED,
        description="Names of folders, at any depth and in upper or lower case, that are not read: tools' own, and code"
        " of others (linguist).",
    )
    max_bytes: int = Field(1_000_000, ge=1, description="Files of this size or larger are dropped (bytes).")
    licences: Annotated[list[Text], Unique, Field(min_length=1)] | None = Field(
        None,
        description="SPDX names of the licences whose files are kept; `permissive` stands for all permissive"
        " licences, `NOASSERTION` for files whose licence is unknown. By default files of every licence"
        " are kept.",
    )
    encodings: Annotated[list[Literal["gbk", "big5", "shift-jis", "euc-jp", "euc-kr", "latin-1", "utf-16"]], Unique] = (
        Field(
            [],
            description="Encodings that are converted to UTF-8 if the detector is sure of them. Files in any other"
            " encoding are dropped; by default only UTF-8 is kept.",
        )
    )
    secrets: Literal["replace", "keep"] = Field(
        "replace",
        description="`replace` replaces keys, tokens and passwords by `<API_KEY>`, `<TOKEN>`, `<PRIVATE_KEY>`,"
        " `<PASSWORD>`, e-mail and IP addresses, phone, card and identity numbers by such of nobody, and counts them;"
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

    def read_languages(self) -> set[str]:
        """The languages whose files are read."""
        return {"c" if language == BY_CONTENT else language for language in self.language_by_ending.values()}
