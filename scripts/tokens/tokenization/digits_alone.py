"""Vocabularies whose pre-tokenizer puts each digit apart and then cuts as GPT-2's: SmolLM2's, StarCoder2's.

    rule = DigitsAlone.of(description)      # None for another pre-tokenizer
    parts, last = rule.cut(texts)           # encode `parts` by a tokenizer of `rule.description`

fastokens cuts GPT-2's words at 120 MB/s, and digits at 5. Without the rule for digits its tokens are the same but at a
digit behind several blanks, of which GPT-2 leaves the last one to the number, and at digits beyond ASCII, whose bytes
may merge with those beside them. There the text is cut in advance: a part ends where the rule for digits would end it.
"""

import re
import unicodedata
from functools import cache
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

ASCII_DIGIT = re.compile(r"[0-9]")
OTHER, BLANK, DIGIT, NUMERAL = range(4)  # kinds of characters; a numeral is none of ASCII's ten digits
LAST = 0x1FFFF  # Unicode has neither blanks nor numerals behind it, and it is none itself


@cache
def kinds() -> np.ndarray:
    """uint8 [LAST + 1]: the kind of each code point."""
    found = np.zeros(LAST + 1, np.uint8)
    for code in range(LAST):
        character = chr(code)
        if character.isspace():
            found[code] = BLANK
        elif "0" <= character <= "9":
            found[code] = DIGIT
        elif unicodedata.category(character).startswith("N"):
            found[code] = NUMERAL
    return found


def places(text: str) -> list[int]:
    """Where a text is cut, in ascending order."""
    if text.isascii():
        codes = np.frombuffer(text.encode(), np.uint8)
    else:
        codes = np.minimum(np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32), LAST)
    kind = kinds()[codes]
    starts = np.zeros(len(text) + 1, bool)
    starts[2:-1] = (kind[2:] == DIGIT) & (kind[1:-1] == BLANK) & (kind[:-2] == BLANK)
    numerals = np.flatnonzero(kind == NUMERAL)
    starts[numerals] = starts[numerals + 1] = True
    starts[0] = starts[-1] = False
    return np.flatnonzero(starts).tolist()


class DigitsAlone(NamedTuple):
    """`description`: as tokenizer.json, without the rule for digits."""

    description: dict

    @classmethod
    def of(cls, description: dict) -> Self | None:
        """The rule of a tokenizer; None where it has another one, or a token that holds a digit and more."""
        rules = (description.get("pre_tokenizer") or {}).get("pretokenizers") or []
        if [rule.get("type") for rule in rules] != ["Digits", "ByteLevel"] or description.get("normalizer"):
            return None
        digits, words = rules
        plain = words.get("use_regex", True) and not words.get("add_prefix_space")
        if not digits.get("individual_digits") or not plain:
            return None
        for merge in description["model"].get("merges", []):
            text = merge if isinstance(merge, str) else " ".join(merge)
            if ASCII_DIGIT.search(text):
                return None
        return cls(description | {"pre_tokenizer": words})

    def cut(self, texts: list[str]) -> tuple[list[str], np.ndarray]:
        """The parts of all texts, one after the other, and int64 [texts]: how many parts end with each text."""
        parts, ends = [], np.zeros(len(texts), np.int64)
        for number, text in enumerate(texts):
            for start, end in pairwise([0, *places(text), len(text)]):
                parts.append(text[start:end])
            ends[number] = len(parts)
        return parts, ends
