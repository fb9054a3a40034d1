"""The filters of corpus.filter once more, as plainly as possible: the reference of tests and benchmark."""

import re

from scripts.corpus.heuristics import quality
from scripts.experiment.settings.corpus import Filter

BASE64 = re.compile(r"[a-zA-Z0-9+/\n=]{64,}")
HEX = re.compile(r"(?:(?:\b(?:0x)?|\\x)[0-9a-fA-F]{2}\b,?\s*){8,}", re.ASCII)
UNICODE = re.compile(r"(?:\\u[0-9a-fA-F]{4}){8,}")


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def naive_reason(raw: bytes, settings: Filter) -> str | None:
    """Why a file's bytes are dropped; None where they are kept."""
    if len(raw) >= settings.max_bytes:
        return "size"
    try:
        text = raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return "encoding"
    if "\0" in text:
        return "binary"
    if text.count("\r") - text.count("\r\n") > text.count("\n"):
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if any(character in text for character in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"):
        return "bidirectional"
    if "\ufffd" * 3 in text or text.count("\ufffd") > quality.MOST_LOST * len(text):
        return "replacement"
    if len(text) < settings.min_characters:
        return "too_short"
    if len(text) > settings.max_characters:
        return "too_long"
    lines = lines_of(text)
    if len(lines) < settings.min_lines:
        return "few_lines"
    lengths = [len(line) for line in lines]
    if lengths and max(lengths) > quality.LONG_LINE:
        return "long_line"
    if lengths and sum(lengths) / len(lengths) > quality.LONG_MEAN:
        return "mean_line"
    if (sum(c.isalnum() for c in text) / len(text) if text else 0) < quality.LETTERS_AND_DIGITS:
        return "alphanumeric"
    head = "\n".join(lines[: quality.HEAD_LINES])
    if any(re.search(f"(?im){marker}".encode(), head.encode()) for marker in quality.GENERATED):
        return "generated"
    runs = [len(match.group()) for pattern in (BASE64, HEX, UNICODE) for match in pattern.finditer(text)]
    if runs and (max(runs) > quality.ENCODED_RUN or sum(runs) / len(text) > quality.ENCODED_SHARE):
        return "encoded_data"
    return None
