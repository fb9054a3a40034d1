"""Identifiers that a model would have written next: of the names in a file, those whose every token is the likeliest.

    counted, right = count_identifiers(encoded, hits, encoder, ["python", ...])     # int64 [documents] each

A name counts as right if, after the file's own text before it, each of its tokens has the largest probability: what an
editor that completes greedily would have inserted. Keywords do not count, nor names in a document's first token, before
which nothing stands.
"""

import re

import numpy as np

from scripts.corpus.syntax.grammars import grammar
from scripts.languages import completions
from scripts.tokens.packing.encoder import Encoded, Encoder

NAME = re.compile(rb"(?<![\w\x80-\xff])[A-Za-z_]\w*(?![\w\x80-\xff])")  # in ASCII alone


def names_in(text: bytes, language: str) -> list[tuple[int, int]]:
    """(first byte, end) of each name in a text that is no keyword of the language."""
    rules = completions().get(language)
    known, spans = grammar(language)[0].language if rules else None, []
    for match in NAME.finditer(text):
        word = match[0].decode()
        if rules is None or word in rules.names_too or known.id_for_node_kind(word, False) is None:
            spans.append(match.span())
    return spans


def count_identifiers(
    encoded: Encoded, hits: np.ndarray, encoder: Encoder, languages: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """How many names each document has, and how many of them are right. `hits`: bool [tokens], whether each token was
    the likeliest one; `languages`: of each document."""
    counted, right = np.zeros(len(languages), np.int64), np.zeros(len(languages), np.int64)
    for number, language in enumerate(languages):
        first, last = encoded.offsets[number], encoded.offsets[number + 1]
        ids = encoded.ids[first:last]
        ends = np.cumsum(encoder.bytes_of[ids])
        text = b"".join(encoder.spelled[token] for token in ids)
        for start, end in names_in(text, language):
            low = int(np.searchsorted(ends, start, side="right"))
            high = int(np.searchsorted(ends, end, side="left")) + 1
            if low > 0:
                counted[number] += 1
                right[number] += bool(hits[first + low : first + high].all())
    return counted, right
