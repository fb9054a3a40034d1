"""The sources table (config/sources.tsv), read and checked: a row per source, columns separated by tabs.

sources = read_sources(Path("config/sources.tsv"))"""

import csv
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from scripts.common.errors import UserError
from scripts.experiment.layout import raw_name
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.record import Location, without_credentials
from scripts.languages import languages, some_names
from scripts.sources.providers.git_process import empty_repository, run_git

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


def read_sources(path: Path) -> list[Source]:
    """The sources in the table's order. Raises UserError: the file is missing, is not UTF-8 text with tabs, or a value
    is wrong; line and column are named."""
    import pandas as pd  # here, as jobs of the area read rows that the table was checked to have

    try:
        # the Python engine alone tells a row that is too short from one whose last cells are empty
        table = pd.read_table(
            path,
            header=None,
            dtype=str,
            keep_default_na=False,
            quoting=csv.QUOTE_NONE,
            skip_blank_lines=False,
            encoding="utf-8-sig",
            engine="python",
        )
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError(f"{path}: no such file; `sources` names the sources table") from error
    except pd.errors.EmptyDataError:
        table = pd.DataFrame()
    except (UnicodeDecodeError, pd.errors.ParserError, csv.Error) as error:
        too_long = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
        if too_long:
            expected, line, actual = too_long.groups()
            raise UserError(f"{path}: line {line}: {actual} cells, but line 1 has {expected} columns") from error
        raise UserError(f"{path}: not UTF-8 text with tabs: {error}; export the table as UTF-8") from error
    # by hand: `dropna` of each row takes 7 s of processor time for 10,000 sources
    lines = []
    for number, row in enumerate(table.to_numpy(), 1):
        cells = [cell for cell in row if isinstance(cell, str)]
        if cells:
            lines.append((number, cells))
    if not lines:
        raise UserError(f"{path}: empty; line 1 must hold the columns {', '.join(COLUMNS)}, separated by tabs")
    (number, header), *rows = lines
    check_header(path, number, header)
    if not rows:
        raise UserError(f"{path}: no rows; at least one source is required")
    return check_rows(path, header, rows)


def sources_of(experiment: Experiment) -> list[Source]:
    """An experiment's sources; none where all its datasets are the user's own. Raises UserError: the table is
    malformed."""
    if experiment.sources:
        return read_sources(Path(experiment.sources))
    return []


def commit_at_head(location: str) -> str:
    """The commit that is checked out in a repository of this machine, as it was when the workflow started.

    It is kept in an environment variable, as each job reads the table again and a user may commit meanwhile."""
    variable = f"STAGECRAFT_HEAD_{hashlib.sha256(location.encode()).hexdigest()[:16]}"
    if variable not in os.environ:
        with tempfile.TemporaryDirectory() as work:
            repository = empty_repository(Path(work))
            listed = run_git(repository, "ls-remote", "--", str(Path(location).resolve()), "HEAD").stdout
        if not listed:
            raise UserError(f"pin HEAD: {location}: no git repository with a commit here; name a commit of its own")
        os.environ[variable] = listed.split()[0]
    return os.environ[variable]


def check_header(path: Path, number: int, header: list[str]) -> None:
    """Raises UserError: a column is unknown, repeated or missing."""
    for column in header:
        if column not in COLUMNS:
            known = ", ".join(COLUMNS)
            raise UserError(
                f"{path}: line {number}: column {column!r:.80} is unknown; known, separated by tabs: {known}"
            )
        if header.count(column) > 1:
            raise UserError(f"{path}: line {number}: column {column!r} occurs twice")
    for column in COLUMNS:
        if column not in header:
            raise UserError(f"{path}: line {number}: column {column!r} is missing")


def check_rows(path: Path, header: list[str], rows: Iterable[tuple[int, list[str]]]) -> list[Source]:
    """The records of `rows`, each (line number, cells). Raises UserError: a row has too few cells or a wrong value, or
    two rows have one name."""
    sources, line_of = [], {}
    for number, cells in rows:
        if len(cells) != len(header):
            raise UserError(f"{path}: line {number}: {len(cells)} cells, but line 1 has {len(header)} columns")
        row = dict(zip(header, cells, strict=True))
        try:
            if row["kind"] == "git" and row["pin"] == "HEAD":
                row["pin"] = commit_at_head(row["location"])
            source = Source.model_validate(row)
        except ValidationError as error:
            raise UserError(f"{path}: line {number}: {first_error(error)}") from error
        except UserError as error:
            raise UserError(f"{path}: line {number}: {error}") from error
        if source.name in line_of:
            first = line_of[source.name]
            raise UserError(f"{path}: line {number}: name: {source.name!r} is on line {first} already; choose another")
        line_of[source.name] = number
        sources.append(source)
    return sources
