"""How much of what a model wrote stands word for word in what it was trained on.

    longest_runs([[5, 8, 13, ...]], [("own", Path("results/tokens/pack/own-256"))])
    # [Run(tokens=21, start=3, document="stagecraft/scripts/cli.py")]

Answers are short and training data is long: the packed rows are gone through once, a block at a time, and only places
whose next `SEED` tokens also stand in an answer are looked at.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scripts.tokens.packing.shards import Shards

SEED = 8  # tokens; a shorter run says nothing in code
ROWS = 4096  # of a block
BASE = np.uint64(0x9E3779B97F4A7C15)


class Run(NamedTuple):
    """The longest run of an answer's tokens that stands in a training row; 0 tokens where none has `SEED`."""

    tokens: int
    start: int  # its place in the answer
    document: str  # the id of the document in whose row it stands, empty without a run


def seeds(ids: np.ndarray) -> np.ndarray:
    """uint64 [n - SEED + 1]: a hash of each run of `SEED` ids along the last axis."""
    ids, length = ids.astype(np.uint64), ids.shape[-1] - SEED + 1
    result = np.zeros((*ids.shape[:-1], length), np.uint64)
    for place in range(SEED):
        result = result * BASE + ids[..., place : place + length] + np.uint64(1)
    return result


def longest_runs(answers: list[list[int]], shards: Iterable[Path]) -> list[Run]:
    """The longest run of each answer that stands in one of the training rows."""
    best = [Run(0, 0, "")] * len(answers)
    places: dict[int, list[tuple[int, int]]] = {}
    for number, answer in enumerate(answers):
        if len(answer) >= SEED:
            for start, seed in enumerate(seeds(np.array(answer)).tolist()):
                places.setdefault(seed, []).append((number, start))
    wanted = np.array(sorted(places), np.uint64)
    for folder in shards if len(wanted) else ():
        rows = Shards(folder, "train")
        for first in range(0, len(rows), ROWS):
            block = np.asarray(rows.tokens[first : first + ROWS])
            hashed = seeds(block)
            for row, column in np.argwhere(np.isin(hashed, wanted)).tolist():
                for number, start in places[int(hashed[row, column])]:
                    length = common(answers[number], start, block[row], column)
                    if length > best[number].tokens:
                        best[number] = Run(length, start, document_at(rows, first + row, column))
    return best


def common(answer: list[int], start: int, row: np.ndarray, column: int) -> int:
    """How many tokens are equal from a place in an answer and one in a row on."""
    length = 0
    while start + length < len(answer) and column + length < len(row):
        if answer[start + length] != row[column + length]:
            break
        length += 1
    return length


def document_at(rows: Shards, row: int, column: int) -> str:
    """The id of the document that a place of a row belongs to."""
    first, last = np.searchsorted(rows.pieces[:, 0], [row, row + 1])
    pieces = rows.pieces[first:last]
    piece = pieces[np.searchsorted(pieces[:, 1], column, side="right") - 1]
    return rows.names[piece[3]]
