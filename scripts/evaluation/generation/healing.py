"""Where a prompt stops for a model: before the white space, or the part of a token, that the text ends in.

    healed = heal(encoder, ids)     # of "def f(a):\\n        ": ids of "def f(a):", due b"\\n        "
    vocabulary_of(encoder).allowed(healed.due)      # of the first token that is generated

A tokenizer joins a line end with all but the last blank of the next line's indentation, and may join any two parts of a
word. A text that stops there ends in tokens that no training text goes on from, and a model then writes blank lines. So
the end of a prompt is taken back, and the first tokens that are generated must spell it: any token that begins with
what is due, or is the beginning of it. The prompt's text is never changed. (Token healing, as guidance does it.)
"""

import re
from bisect import bisect_left
from functools import cache
from typing import NamedTuple

import numpy as np

from scripts.tokens.tokenization.encoder import Encoder

# What may belong to a token that goes on behind the end: white space, else the last word, number or run of signs, with
# the blank before it.
OPEN_END = re.compile(rb"\s+\Z|[ ]?(?:[\w\x80-\xff]+|[^\w\s\x80-\xff]+)\Z")
INSIDE_WORD = re.compile(rb"[\w\x80-\xff]{2}\Z")
MOST = 256  # bytes that are taken back at most


class Healed(NamedTuple):
    """A prompt whose end was taken back.

    Attributes:
        ids: of what is left.
        due: the bytes that were taken back, which the first generated tokens spell.
        removed: how many tokens were taken back.
    """

    ids: list[int]
    due: bytes
    removed: int


class Vocabulary:
    """The spellings of all ids, in order, so that those that begin with the same bytes are neighbours."""

    def __init__(self, spelled: list[bytes]):
        ordered = sorted((text, number) for number, text in enumerate(spelled) if text)
        self.texts = [text for text, _ in ordered]
        self.ids = np.array([number for _, number in ordered], np.int64)
        self.longest = max(map(len, self.texts), default=0)

    def beginning_with(self, text: bytes) -> np.ndarray:
        """int64: the ids whose spelling begins with these bytes, or is them."""
        first = bisect_left(self.texts, text)
        last = bisect_left(self.texts, text + b"\xff" * (self.longest + 1))
        return self.ids[first:last]

    def allowed(self, due: bytes) -> np.ndarray:
        """int64: the ids that spell what is due and maybe more, or its beginning."""
        found = [self.beginning_with(due)]
        for size in range(1, len(due)):
            first = bisect_left(self.texts, due[:size])
            last = bisect_left(self.texts, due[:size] + b"\x00")
            found.append(self.ids[first:last])
        return np.concatenate(found)


@cache
def vocabulary_of(encoder: Encoder) -> Vocabulary:
    """Made once for each encoder."""
    return Vocabulary(encoder.spelled)


def boundary(spelled: list[bytes], vocabulary: Vocabulary) -> int:
    """How many of some tokens are kept of a prompt that ends behind them. `spelled`: the bytes of each token; a control
    token has none and is never taken back."""
    starts = np.concatenate([[0], np.cumsum([len(text) for text in spelled])])
    first = len(spelled)  # the first token that may be taken back
    while first and spelled[first - 1] and starts[-1] - starts[first - 1] <= MOST:
        first -= 1
    text = b"".join(spelled[first:])
    found = OPEN_END.search(text)
    if not found:
        return len(spelled)
    kept, open_from = len(spelled), starts[first] + found.start()
    while kept > first and starts[kept] > open_from:
        kept -= 1
    # an earlier token may be the beginning of one that spans all that was taken back
    for place in range(kept - 1, first - 1, -1):
        spanned = text[starts[place] - starts[first] :]
        if len(spanned) > vocabulary.longest:
            break
        if len(vocabulary.beginning_with(spanned)):
            kept = place
    # what is inside a word may be cut elsewhere when the word goes on
    while kept > first and INSIDE_WORD.search(text, 0, starts[kept] - starts[first] + 1):
        kept -= 1
    return kept


def heal(encoder: Encoder, ids: list[int]) -> Healed:
    """The prompt with these ids, without its open end."""
    last = ids[-MOST:]  # no token is empty but a control token
    spelled = [encoder.spelled[token] if token < encoder.vocab_size else b"" for token in last]
    kept = len(ids) - len(last) + boundary(spelled, vocabulary_of(encoder))
    return Healed(ids[:kept], b"".join(encoder.spelled[token] for token in ids[kept:]), len(ids) - kept)
