"""Decode texts that are not UTF-8, where the encoding can be detected with certainty.

    decode_detected(raw, ["gbk", "shift-jis", "latin-1"])     # ("gbk", "text"), or raises ValueError

chardet detects the encoding. It is reliable for multi-byte encodings, but mostly guesses between 8-bit ones. So a text
that it takes for Latin-1 must also look like Latin-1: accented letters inside words, symbols only between words.
"""

import re
from itertools import chain

import orjson

from scripts.corpus.heuristics.quality import Dropped

# the least confidence that is accepted; for GBK chardet gives 1.0 or far less, for UTF-16 without a BOM 0.8
SURE = {"gbk": 0.9, "big5": 0.9, "shift-jis": 0.9, "euc-jp": 0.9, "euc-kr": 0.9, "utf-16": 0.7, "latin-1": 0.0}
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
# chardet's names → ours, and the codec that reads all of it
KNOWN = {
    "GB2312": ("gbk", "gb18030"),
    "GBK": ("gbk", "gb18030"),
    "GB18030": ("gbk", "gb18030"),
    "BIG5": ("big5", "cp950"),
    "SHIFT_JIS": ("shift-jis", "cp932"),
    "CP932": ("shift-jis", "cp932"),
    "EUC-JP": ("euc-jp", "euc_jp"),
    "EUC-KR": ("euc-kr", "cp949"),
    "CP949": ("euc-kr", "cp949"),
    "ISO-8859-1": ("latin-1", "cp1252"),
    "WINDOWS-1252": ("latin-1", "cp1252"),
    "UTF-16": ("utf-16", "utf-16"),
    "UTF-16LE": ("utf-16", "utf-16-le"),
    "UTF-16BE": ("utf-16", "utf-16-be"),
}
# characters of which a text in the encoding has some; a text without them was written in another one
TYPICAL = {"shift-jis": "[぀-ヿ]", "euc-jp": "[぀-ヿ]", "euc-kr": "[가-힣]"}
# how other encodings look when read as Latin-1: symbols inside words, or many in a row
NOT_LATIN = re.compile(
    r"(?<=[a-z])[^\x00-\x7fª-ºÀ-ÿŒœŠšŽžŸ–—’…‹›«»](?=[a-z])|[¡-¿×÷](?=[a-zà-ÿ])(?<=\w.)|[^\x00-\x7f]{4}"
)


def decode_detected(raw: bytes, encodings: list[str]) -> tuple[str, str]:
    """(name of the encoding, decoded text) of bytes that are not UTF-8.

    Args:
        encodings: the names that are accepted.

    Raises:
        ValueError: the detection is uncertain, or gives an encoding that is not accepted; the message names it.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) and not raw.startswith(b"\xff\xfe\0\0"):
        guessed, confidence = "UTF-16", 1.0
    else:
        import chardet  # takes longer to import than a typical source to filter

        guess = chardet.detect(raw)
        guessed, confidence = str(guess["encoding"]).upper(), guess["confidence"] or 0.0
    name, codec = KNOWN.get(guessed, (None, None))
    if name not in encodings:
        raise ValueError(f"looks like {guessed}")
    if confidence < SURE[name]:
        raise ValueError(f"perhaps {guessed}")
    text = raw.decode(codec)  # UnicodeDecodeError is a ValueError
    if name == "latin-1" and NOT_LATIN.search(text):
        raise ValueError(f"perhaps {guessed}, but there are symbols inside words")
    if name in TYPICAL and not re.search(TYPICAL[name], text):
        raise ValueError(f"perhaps {guessed}, but no letter of its language is in it")
    if CONTROL.search(text):
        raise ValueError(f"perhaps {guessed}, but it holds control characters")
    return name, text.removeprefix("\ufeff")


def code_cells(text: str) -> str:
    """The code cells of a notebook in their order, an empty line between them; outputs and prose are left out. Raises
    Dropped: `notebook`, if the text is none."""
    try:
        notebook = orjson.loads(text)
        # version 3 had its cells in sheets, and called the source `input`
        sheets = [notebook] if "cells" in notebook else notebook["worksheets"]
        cells = list(chain.from_iterable(sheet["cells"] for sheet in sheets))
        sources = [cell.get("source", cell.get("input", "")) for cell in cells if cell["cell_type"] == "code"]
        parts = [source if isinstance(source, str) else "".join(source) for source in sources]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Dropped("notebook", f"not a notebook: {error!r:.100}") from error
    return "".join(f"{part.strip()}\n\n" for part in parts if part.strip()).removesuffix("\n")
