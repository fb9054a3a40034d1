"""A source as a typed record: a row of the sources table, and the part of it that says what to fetch; and what the jobs
of one or several sources share: their arguments, and a loop that goes on when one source fails."""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from scripts.common.errors import UserError
from scripts.experiment.layout import raw_name
from scripts.experiment.settings.record import Location, without_credentials
from scripts.languages import languages, some_names

SDIST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?==[0-9][A-Za-z0-9.!+_-]*")


class PinnedSource(BaseModel):
    """What rule `fetch` needs of a source. Each description says what the value must be, for error lines."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[
        str,
        Field(
            pattern="^[a-z0-9][a-z0-9._-]*$",
            description="lower-case letters, digits and `._-`, a letter or digit first",
        ),
    ]
    kind: Annotated[Literal["git", "sdist", "path"], Field(description="one of git, sdist, path")]
    location: Annotated[Location, Field(description="a URL, a path or project==version")]
    pin: Annotated[
        str, Field(description="a commit of 40 or a sha256 of 64 hex digits, or HEAD of a repository on this machine")
    ]

    @property
    def raw_name(self) -> str:
        """The name of its archive and manifest in data/raw."""
        return raw_name(self.name, self.pin)

    @field_validator("location")
    @classmethod
    def check_location(cls, location: str, info: ValidationInfo) -> str:
        if not re.fullmatch(r"[^-\s][^\t\r\n]*", location):
            raise ValueError("a URL, a path or project==version")
        if info.data.get("kind") == "sdist" and not SDIST.fullmatch(location):
            raise ValueError("project==version for kind sdist")
        return location

    @field_validator("pin")
    @classmethod
    def check_pin(cls, pin: str, info: ValidationInfo) -> str:
        kind = info.data.get("kind")
        if kind == "git" and not re.fullmatch("[0-9a-f]{40}", pin):
            raise ValueError("a commit of 40 hex digits for kind git, or HEAD of a repository on this machine")
        if kind in ("sdist", "path") and not re.fullmatch("[0-9a-f]{64}", pin):
            raise ValueError("a sha256 of 64 hex digits for kinds sdist and path")
        return pin


class Source(PinnedSource):
    """A row of the sources table."""

    language: str
    priority: Annotated[Literal["high", "medium"], Field(description="one of high, medium")]
    licence: Annotated[
        str,
        Field(
            pattern="^[A-Za-z0-9(][A-Za-z0-9.+() -]*$",
            description="an SPDX expression, e.g. Apache-2.0, or NOASSERTION",
        ),
    ]

    @field_validator("language")
    @classmethod
    def check_language(cls, language: str) -> str:
        if language not in languages():
            raise ValueError(f"a language, such as {some_names(language)}")
        return language


COLUMNS = list(Source.model_fields)


def check_pin(path: Path, manifest: dict, kind: str, pin: str) -> None:
    """Compare an archive's manifest, read from `path`, with the sources table. Raises UserError: the archive is of
    another commit or content than the table pins."""
    if (manifest.get("kind"), manifest.get("pin")) != (kind, pin):
        recorded = f"{manifest.get('kind')} {manifest.get('pin')}"
        remove = f"rm {path.with_suffix('')}.*"
        raise UserError(
            f"{path}: made from {recorded}, but the sources table pins {kind} {pin}; `{remove}` and run again"
        )


def first_error(error: ValidationError) -> str:
    """One line about the first wrong column: the column, its value, what would be right."""
    # a wrong kind first: what location and pin must be depends on it
    errors = {detail["loc"][0]: detail for detail in error.errors(include_url=False)}
    column = next(column for column in ["kind", *COLUMNS] if column in errors)
    wrong = errors[column]
    if wrong["type"] == "credentials":
        return f"{column}: {wrong['msg']}"
    # an error raised above has text that says what would be right
    if wrong["type"] == "value_error":
        right = wrong["ctx"]["error"]
    else:
        right = Source.model_fields[column].description
    return f"{column}: {without_credentials(wrong['input'])!r:.80} is not {right}"


Made = TypeVar("Made")


def given_sources(sources: list[dict], locations: list[str]) -> list[PinnedSource]:
    """The sources that a job's arguments name: name, kind and pin of each, and where it is."""
    pairs = zip(sources, locations, strict=True)
    return [PinnedSource.model_validate({**source, "location": location}) for source, location in pairs]


def make_each(label: str, sources: list[PinnedSource], make: Callable[[PinnedSource], Made]) -> list[Made]:
    """What `make` returns for each source.

    Args:
        label: the job, for warnings.

    Raises:
        UserError: it failed for some; it was called for all.
    """
    results, errors = [], []
    for source in sources:
        try:
            results.append(make(source))
        except UserError as error:
            text = str(error)
            errors.append(text if source.name in text else f"source {source.name}: {text}")
            if sources[1:]:  # of a single one the job's error line says it
                logging.warning(f"{label}: {errors[-1]}")
    if errors:
        more = ""
        if errors[1:]:
            more = f"; and {len(errors) - 1} more sources of this shard failed, see above"
        raise UserError(f"{errors[0]}{more}")
    return results
