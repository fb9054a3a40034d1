"""A filled score sheet, seen to be a whole and unaltered answer to the sheet that was given out.

    ratings = read_filled(Path("anna.csv"), "bcdfghjk", blank)   # row → (correct, comment)

A sheet may come back from the form or from any spreadsheet: with or without a byte-order mark, with commas, semicolons
or tabs, its rows in another order, its cells with other line ends.
"""

import csv
import io
import logging
import unicodedata
from pathlib import Path

from scripts.common.cli import UserError
from scripts.evaluation.sheet import COLUMNS, SHOWN

TRUE, FALSE = ("yes", "y", "true", "1", "是"), ("no", "n", "false", "0", "否")
MEANING = dict.fromkeys(TRUE, True) | dict.fromkeys(FALSE, False)
AGAIN = "save it as `CSV UTF-8`, or fill the form"


def read_records(path: Path) -> list[dict[str, str]]:
    """The rows of a sheet, empty ones left out.

    Raises:
        UserError: the file is missing, or is no CSV in UTF-8 with a sheet's columns.
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
        found = [[*row, *[""] * (len(COLUMNS) - len(row))] for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise UserError(f"{path}: line {reader.line_num}: not whole CSV, {error}; {AGAIN}") from error
    for number, row in enumerate(found, 1):
        if any(row[len(COLUMNS) :]):
            raise UserError(f"{path}: record {number}: {len(row)} cells, must be {len(COLUMNS)}; {AGAIN}")
    return [dict(zip(COLUMNS, row, strict=False)) for row in found[1:]]


def canonical(cell: str) -> str:
    """A cell's text whatever spreadsheet saved it: without its guard, white space as single spaces."""
    return " ".join(cell.lstrip("'").split())


def wrong_with(record: dict[str, str], blank: dict[str, str] | None, before: bool) -> str | None:
    """What is wrong with a filled row, or None.

    Args:
        blank: the row as it was given out; None where there is no such row.
        before: whether it was there before.
    """
    if blank is None:
        return "no such row in the sheet"
    if before:
        return "there twice; keep one"
    for column in SHOWN:
        if canonical(record[column]) != canonical(blank[column]):
            return f"its {column} is not what was given out; was one column sorted, or a text edited?"
    if folded(record["correct"]) not in MEANING:
        return f"correct is {record['correct']!r:.40}, must be yes or no"
    return None


def folded(answer: str) -> str:
    return unicodedata.normalize("NFKC", answer).strip().casefold()


def read_filled(path: Path, sheet: str, blank: list[dict[str, str]]) -> dict[str, tuple[bool, str]]:
    """row → (whether its response was called correct, the comment).

    Args:
        sheet: its name, which each row's name begins with.
        blank: the rows as they were given out.

    Raises:
        UserError: the sheet is none, is another run's, or a row is missing, unknown, repeated, altered or not filled;
            of several wrong rows each is logged.
    """
    records, given = read_records(path), {row["row"]: row for row in blank}
    names = {record["row"].rpartition("-")[0] for record in records}
    if names and sheet not in names:
        raise UserError(f"{path}: of the sheet {min(names)!r:.40}, not of this run's {sheet!r}; rate this run's sheet")
    found, problems = {}, []
    for record in records:
        name = record["row"]
        if problem := wrong_with(record, given.get(name), name in found):
            problems.append(f"row {name!r:.40}: {problem}")
        found[name] = (MEANING.get(folded(record["correct"]), False), record["comment"].strip().removeprefix("'"))
    problems += [f"row {name!r}: missing" for name in given if name not in found]
    for problem in problems:
        logging.error(f"{path}: {problem}")
    if problems:
        more = f" (and {len(problems) - 1} more rows)" if problems[1:] else ""
        raise UserError(f"{path}: {problems[0]}{more}")
    return found
