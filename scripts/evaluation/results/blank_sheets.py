"""The cells of a blank rating sheet: columns, and texts as every spreadsheet shows them unchanged."""

import re

COLUMNS = ("row", "language", "prompt", "reference", "response", "correct", "comment")
TEXT_COLUMNS = ("language", "prompt", "reference", "response")

# Characters of a cell: a spreadsheet cuts at 32,767 UTF-16 units, and some characters take two of them.
LONGEST = 16_000

# What a spreadsheet would convert to a formula (also with full-width signs), a number, a date or a truth value. An
# apostrophe before it keeps it text. The form uses it too, so it is written in what Python and JavaScript share.
LIKE_DATES = "[ -~£¥€年月日时分秒]{0,15}"
CONVERTED = rf"^(?:[ \t\n]*[=+\-@＝＋－＠]|(?:{LIKE_DATES}[0-9]{LIKE_DATES}|true|false)(?![\s\S]))"


def plain(text: str) -> str:
    """A text for display: Unix line ends, other control characters as their Unicode pictures, cut at `LONGEST`."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", lambda match: chr(0x2400 + min(ord(match[0]), 0x21)), text)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST:,} characters more)"


def guarded(text: str) -> str:
    """A cell that every spreadsheet takes for text."""
    return f"'{text}" if re.match(CONVERTED, text, re.IGNORECASE) else text


def cells(rows: dict[str, dict]) -> list[dict[str, str]]:
    """The cells of a blank sheet.

    Args:
        rows: by name; each has a text for each of `TEXT_COLUMNS`.
    """
    blank = {"correct": "", "comment": ""}
    return [
        {"row": name, **{column: guarded(row[column]) for column in TEXT_COLUMNS}, **blank}
        for name, row in rows.items()
    ]
