"""Read a filled rating sheet, and check that it answers every row of the sheet given out, with the texts unaltered.

    ratings = read_ratings(Path("anna.csv"), "bcdfghjk", blank)   # row → Rating(correct, comment)

The sheet may come from the form or from any spreadsheet: with or without a byte-order mark, with commas, semicolons or
tabs, rows in another order, cells with other line ends.
"""

import csv
import io
import itertools
import logging
import unicodedata
from pathlib import Path
from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.evaluation.results.blank_sheets import COLUMNS, TEXT_COLUMNS

YES, NO = ("yes", "y", "true", "1", "是"), ("no", "n", "false", "0", "否")
MEANING = dict.fromkeys(YES, True) | dict.fromkeys(NO, False)
AGAIN = "save it as `CSV UTF-8`, or fill the form"


class Rating(NamedTuple):
    """What a rater wrote in a row."""

    correct: bool
    comment: str


def read_records(path: Path) -> list[dict[str, str]]:
    """The rows of a sheet, empty ones left out.

    Raises:
        UserError: the file is missing, or is not CSV in UTF-8 with a sheet's columns.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text; {AGAIN}") from error
    first = text.split("\n", 1)[0].strip()
    for delimiter in (",", ";", "\t"):
        if [name.strip('" ') for name in first.split(delimiter)] == list(COLUMNS):
            break
    else:
        raise UserError(f"{path}: its first line is {first!r:.80}, must be {','.join(COLUMNS)}; {AGAIN}")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        rows = [row for row in reader if "".join(row).strip()]
    except csv.Error as error:
        raise UserError(f"{path}: line {reader.line_num}: malformed CSV, {error}; {AGAIN}") from error
    for number, row in enumerate(rows, 1):
        if any(row[len(COLUMNS) :]):
            raise UserError(f"{path}: record {number}: {len(row)} cells, must be {len(COLUMNS)}; {AGAIN}")
    return [dict(itertools.zip_longest(COLUMNS, row[: len(COLUMNS)], fillvalue="")) for row in rows[1:]]


def canonical(cell: str) -> str:
    """A cell's text whatever spreadsheet saved it: without the leading apostrophe, white space as single spaces."""
    return " ".join(cell.lstrip("'").split())


def folded(answer: str) -> str:
    return unicodedata.normalize("NFKC", answer).strip().casefold()


def problem_of(record: dict[str, str], blank: dict[str, str] | None, repeated: bool) -> str | None:
    """What is wrong with a filled row, or None.

    Args:
        blank: the row as it was given out; None if there is no such row.
        repeated: whether an earlier row has the same name.
    """
    if blank is None:
        return "no such row in the sheet"
    if repeated:
        return "occurs twice; keep one"
    for column in TEXT_COLUMNS:
        if canonical(record[column]) != canonical(blank[column]):
            return f"its {column} is not what was given out; was one column sorted, or a text edited?"
    if folded(record["correct"]) not in MEANING:
        return f"correct is {record['correct']!r:.40}, must be yes or no"
    return None


def read_ratings(path: Path, sheet: str, blank: list[dict[str, str]]) -> dict[str, Rating]:
    """The rating of each row.

    Args:
        sheet: its name, with which each row's name begins.
        blank: the rows as they were given out.

    Raises:
        UserError: the file is not a sheet, is another run's, or a row is missing, unknown, repeated, altered or not
            filled; if several rows are wrong, each is logged.
    """
    records, given_out = read_records(path), {row["row"]: row for row in blank}
    names = {record["row"].rpartition("-")[0] for record in records}
    if names and sheet not in names:
        raise UserError(
            f"{path}: filled in for sheet {min(names)!r:.40}, but this run's sheet is {sheet!r}; rate that one"
        )
    ratings, problems = {}, []
    for record in records:
        name = record["row"]
        if problem := problem_of(record, given_out.get(name), name in ratings):
            problems.append(f"row {name!r:.40}: {problem}")
        correct = MEANING.get(folded(record["correct"]), False)
        ratings[name] = Rating(correct, record["comment"].strip().removeprefix("'"))
    problems += [f"row {name!r}: missing" for name in given_out if name not in ratings]
    for problem in problems:
        logging.error(f"{path}: {problem}")
    if problems:
        more = f" (and {len(problems) - 1} more rows)" if problems[1:] else ""
        raise UserError(f"{path}: {problems[0]}{more}")
    return ratings
