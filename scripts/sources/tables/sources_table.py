"""The sources table (config/sources.tsv), read and checked: one source per line, columns separated by tabs.

from scripts.sources.tables.sources_table import read_sources
sources = read_sources(Path("config/sources.tsv"))
"""

import csv
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from pydantic import ValidationError

from scripts.common.errors import UserError
from scripts.experiment.settings.experiment import Experiment
from scripts.sources.providers.git_process import empty_repository, run_git
from scripts.sources.tables.source import COLUMNS, Source, first_error


def read_sources(path: Path) -> list[Source]:
    """The sources in the table's order. Raises UserError: the file is missing, is not UTF-8 text with tabs, or a value
    is wrong; line and column are named."""
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


# What publishing and `make docs` commit: pointers to data and results, and pages. No source of code lies there.
PUBLISHED = ("data", ".dvc", "results", "docs")


def newest_change(repository: Path, checkout: Path, head: str) -> str:
    """The newest commit up to `head` that changed more than what publishing commits; `head` where that is not known.

    Results of a checkout's own code would be stale as soon as they are published if the pin were that commit.

    Args:
        repository: an empty one, which reads the objects of the checkout's.
    """
    own = checkout / ".git"
    if not (own / "objects").is_dir():  # a worktree, or a bare repository
        return head
    (repository / "objects/info/alternates").write_text(f"{own / 'objects'}\n")
    if (own / "shallow").is_file():
        shutil.copyfile(own / "shallow", repository / "shallow")
    others = [f":(exclude,top){name}" for name in PUBLISHED]
    found = run_git(repository, "log", "-1", "--format=%H", head, "--", ":(top)", *others).stdout.strip()
    return found or head


def commit_at_head(location: str) -> str:
    """The commit that is checked out in a repository of this machine, as it was when the workflow started; of the
    checkout that runs here itself, the newest that changed more than what publishing commits.

    It is kept in an environment variable, as each job reads the table again and a user may commit meanwhile."""
    variable = f"STAGECRAFT_HEAD_{hashlib.sha256(location.encode()).hexdigest()[:16]}"
    if variable not in os.environ:
        with tempfile.TemporaryDirectory() as work:
            repository = empty_repository(Path(work))
            place = Path(location).resolve()
            listed = run_git(repository, "ls-remote", "--", str(place), "HEAD").stdout
            if not listed:
                raise UserError(f"pin HEAD: {location}: no git repository with a commit here; name a commit of its own")
            head = listed.split()[0]
            os.environ[variable] = newest_change(repository, place, head) if place == Path.cwd().resolve() else head
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
