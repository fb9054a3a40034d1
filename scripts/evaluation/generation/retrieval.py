"""Code of the training split that resembles what stands before a place, by BM25: what a user's editor would retrieve.

search = Search(pieces)
search.best(text_before, count=3)                        # the numbers of the best pieces, the best one first
prefixes = Chunks(encoder, training_texts, 128).before(encoded, windows, count=3)
"""

import logging
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import bm25s
import numpy as np

from scripts.tokens.packing.encoder import Encoded, Encoder

if TYPE_CHECKING:
    from scripts.evaluation.generation.likelihood import Window  # which imports torch

PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")


def words(text: str) -> list[str]:
    """The identifiers of a text and, of those with several, their parts, in lower case."""
    found = []
    for identifier in re.findall(r"\w+", text):
        parts = PARTS.findall(identifier)
        found.append(identifier.lower())
        if len(parts) > 1:
            found += [part.lower() for part in parts]
    return found


class Search:
    """BM25 (Robertson and Zaragoza 2009, with the defaults of bm25s) over pieces of text."""

    def __init__(self, pieces: list[str]):
        logging.getLogger("bm25s").setLevel(logging.WARNING)
        self.count, self.index = len(pieces), bm25s.BM25()
        if pieces:
            self.index.index([words(piece) for piece in pieces], show_progress=False)

    def best(self, query: str, count: int) -> list[int]:
        """The numbers of the pieces that share words with the query, at most `count`, the best one first."""
        wanted = words(query)
        if not wanted or not self.count:
            return []
        found, scores = self.index.retrieve([wanted], k=min(count, self.count), show_progress=False)
        return [int(place) for place, score in zip(found[0], scores[0], strict=True) if score > 0]


class Pieces:
    """Documents cut into pieces of some lines, each found by its words and by those of its file's path: for prompts.
    `documents`: `id` (the path) and `text` of the training split."""

    LINES, COUNT = 12, 3  # of a piece, and pieces before a prompt

    def __init__(self, documents: Iterable[dict]):
        self.pieces, described = [], []
        for document in documents:
            lines = document["text"].splitlines(keepends=True)
            for start in range(0, len(lines), self.LINES):
                self.pieces.append("".join(lines[start : start + self.LINES]))
                described.append(f"{document['id']}\n{self.pieces[-1]}")
        self.search = Search(described)

    def before(self, query: str) -> str:
        """The pieces that resemble the query as one text, the best one last; empty where none does."""
        found = self.search.best(query, self.COUNT)
        return "".join(self.pieces[place].rstrip("\n") + "\n\n" for place in reversed(found))


class Chunks:
    """Documents cut into pieces of a number of tokens, each found by its words and by those of its file's path.

    Args:
        documents: `id` (the path) and `text` of the training split; held-out files are not among them.
        tokens: the length of a piece.
    """

    def __init__(self, encoder: Encoder, documents: Iterable[dict], tokens: int):
        self.encoder, self.pieces, described = encoder, [], []
        for document in documents:
            ids = np.array(encoder.continuation(document["text"]), np.uint32)
            for start in range(0, len(ids), tokens):
                self.pieces.append(ids[start : start + tokens])
                described.append(f"{document['id']}\n{encoder.decode(self.pieces[-1].tolist())}")
        self.search = Search(described)

    def before(
        self, paths: list[str], encoded: Encoded, windows: "list[Window]", count: int
    ) -> "dict[Window, np.ndarray]":
        """For each window the ids of the chunks that stand before it, the best one last; none where nothing is found.

        The query is the path of the example's file, which an editor knows, and what the window shows before its first
        scored token. Without the path, retrieval helps a third as much (docs/DECISIONS.md).

        Args:
            paths: of the encoded examples.
        """
        prefixes = {}
        for window in windows:
            offset = encoded.offsets[window.example]
            shown = encoded.ids[offset + window.start : offset + window.new].tolist()
            found = self.search.best(f"{paths[window.example]}\n{self.encoder.decode(shown)}", count)
            if found:
                prefixes[window] = np.concatenate([self.pieces[place] for place in reversed(found)])
        return prefixes
