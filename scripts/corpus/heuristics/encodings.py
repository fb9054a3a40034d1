"""Text in other encodings than UTF-8, where the detector is sure which one it is.

    converted(raw, ["gbk", "latin-1", "utf-16"])     # ("gbk", "text"), or raises ValueError

chardet says which encoding it is. Of the multi-byte ones it is sure or not; between the 8-bit ones it mostly guesses,
so what it takes for Latin-1 must also look like it: letters with accents inside of words, signs only between words.
"""

import re

import chardet

# chardet's confidence from which it is sure: for GBK it has 1.0 or far less, for UTF-16 without a mark 0.8
SURE = {"gbk": 0.9, "utf-16": 0.7, "latin-1": 0.0}
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
# chardet's names → ours, and the codec that reads all of it
KNOWN = {
    "GB2312": ("gbk", "gb18030"),
    "GBK": ("gbk", "gb18030"),
    "GB18030": ("gbk", "gb18030"),
    "ISO-8859-1": ("latin-1", "cp1252"),
    "WINDOWS-1252": ("latin-1", "cp1252"),
    "UTF-16": ("utf-16", "utf-16"),
    "UTF-16LE": ("utf-16", "utf-16-le"),
    "UTF-16BE": ("utf-16", "utf-16-be"),
}
# what other encodings look like when they are read as Latin-1: signs inside of words, many in a row
NOT_LATIN = re.compile(
    r"(?<=[a-z])[^\x00-\x7fª-ºÀ-ÿŒœŠšŽžŸ–—’…‹›«»](?=[a-z])|[¡-¿×÷](?=[a-zà-ÿ])(?<=\w.)|[^\x00-\x7f]{4}"
)


def converted(raw: bytes, encodings: list[str]) -> tuple[str, str]:
    """(the encoding's name, the text) of bytes that are no UTF-8.

    Args:
        encodings: the names that may be converted.

    Raises:
        ValueError: the detector is not sure, or finds another encoding; the message says which.
    """
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")) and not raw.startswith(b"\xff\xfe\0\0"):
        found, confidence = "UTF-16", 1.0
    else:
        guess = chardet.detect(raw)
        found, confidence = str(guess["encoding"]).upper(), guess["confidence"] or 0.0
    name, codec = KNOWN.get(found, (None, None))
    if name not in encodings:
        raise ValueError(f"looks like {found}")
    if confidence < SURE[name]:
        raise ValueError(f"perhaps {found}")
    text = raw.decode(codec)  # UnicodeDecodeError is a ValueError
    if name == "latin-1" and NOT_LATIN.search(text):
        raise ValueError(f"perhaps {found}, but signs stand inside of words")
    if CONTROL.search(text):
        raise ValueError(f"perhaps {found}, but it holds control characters")
    return name, text.removeprefix("\ufeff")
