"""Place documents in rows: cut long documents into pieces, place pieces best-fit decreasing, shuffle the rows."""

import numpy as np
from numba import njit


@njit(cache=True)
def place(lengths, capacity):
    """Best-fit decreasing: longest piece first, each into the fullest row that still has room for it.

    Args:
        lengths: int64 [pieces], descending, none above `capacity`.
        capacity: tokens of a row.

    Returns:
        (int64 [pieces] row of each piece, int64 [pieces] its offset there, number of rows).
    """
    leaves = 1
    while leaves <= capacity:
        leaves *= 2
    # Rows by the room they have left: a stack for each size, and a binary tree of the sizes that some row has.
    has = np.zeros(2 * leaves, np.bool_)
    top = np.full(capacity + 1, -1, np.int64)
    below = np.empty(len(lengths), np.int64)
    row_of, offset_of = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.int64)
    rows = 0
    for piece in range(len(lengths)):
        # find the smallest room >= lengths[piece]: up to the first right sibling with a row, then down its left side
        node = leaves + lengths[piece]
        if not has[node]:
            while node > 1 and (node % 2 == 1 or not has[node + 1]):
                node //= 2
            if node > 1:
                node += 1
                while node < leaves:
                    node *= 2
                    if not has[node]:
                        node += 1
        if node > 1:
            room = node - leaves
            row = top[room]
            top[room] = below[row]
            if top[room] < 0:
                has[node] = False
                while node > 1 and not has[node ^ 1]:
                    node //= 2
                    has[node] = False
        else:
            room, row = capacity, rows
            rows += 1
        row_of[piece], offset_of[piece] = row, capacity - room
        room -= lengths[piece]
        below[row] = top[room]
        top[room] = row
        node = leaves + room
        while node > 0 and not has[node]:
            has[node] = True
            node //= 2
    return row_of, offset_of, rows


def pieces_of(lengths: np.ndarray, length: int, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Cut documents into pieces and place them.

    Args:
        lengths: int64 [documents], tokens of each.
        length: tokens of a row.

    Returns:
        (int64 [pieces, 4] of (row, offset, tokens, document), sorted; int64 [pieces], the index of the first token of
        each among all tokens of all documents; number of rows).
    """
    counts = -(-lengths // length)
    document = np.repeat(np.arange(len(lengths)), counts)
    within = (np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)) * length
    sizes = np.minimum(lengths[document] - within, length)
    starts = (np.cumsum(lengths) - lengths)[document] + within

    order = np.argsort(-sizes, kind="stable")
    row, offset, rows = place(sizes[order], length)
    # Placement goes from long to short; shuffled, a batch holds a mix. RandomState's stream never changes (NEP 19).
    row = np.random.RandomState(seed).permutation(rows)[row]
    pieces = np.stack([row, offset, sizes[order], document[order]], axis=1)
    by_place = np.lexsort((offset, row))
    return pieces[by_place], starts[order][by_place], rows
