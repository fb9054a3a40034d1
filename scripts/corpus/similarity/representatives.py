"""Which text stands for which similar one: all texts of each bucket compared exactly, in compiled code.

A bucket is texts with an equal band of their signatures (scripts/corpus/similarity/minhash.py), so likely to be
similar. Texts are similar if their sets of word sequences have at least a given Jaccard index.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def alike(sequences, first, second, jaccard):
    """Whether the sorted sets `sequences[first[0]:first[1]]` and the same of `second` are at least `jaccard` alike."""
    i, end, j, stop = first[0], first[1], second[0], second[1]
    sizes = end - i + stop - j
    # |A and B| >= t |A or B| is |A and B| >= t / (1 + t) (|A| + |B|); a guard against rounding at exactly the threshold
    needed = jaccard / (1 + jaccard) * sizes - 1e-9
    if min(end - i, stop - j) < needed:
        return False
    common = 0
    while i < end and j < stop:
        if sequences[i] == sequences[j]:
            common += 1
            i += 1
            j += 1
        elif sequences[i] < sequences[j]:
            i += 1
        else:
            j += 1
    return common >= needed


@njit(cache=True)
def representatives(rows, starts, members, sizes, sequences, spans, jaccard):
    """int64 [texts]: the text that stands for each one, itself if it is a representative.

    Args:
        rows: int64, for each text the rows of `members` that are this text, one text after the other.
        starts: int64 [texts + 1], where the rows of each text begin.
        members: int64, the texts of all buckets, one bucket after the other; they are numbered in the order in which
            they are taken.
        sizes: int64, how many texts each bucket has.
        sequences: uint64, the sorted sets of word sequences of all texts, one after the other.
        spans: int64 [texts, 2], where the set of each text begins and ends.
    """
    texts = len(spans)
    first, bucket_of = np.zeros(len(sizes), np.int64), np.zeros(len(members), np.int64)
    row = 0
    for bucket, size in enumerate(sizes):
        first[bucket] = row
        bucket_of[row : row + size] = bucket
        row += size
    # the representatives in each bucket, in order, in the bucket's part of one array
    known, counts = np.zeros(len(members), np.int64), np.zeros(len(sizes), np.int64)
    result, compared_with = np.arange(texts), np.full(texts, -1)
    for text in range(texts):
        best = text
        for row in rows[starts[text] : starts[text + 1]]:
            bucket = bucket_of[row]
            for old in known[first[bucket] : first[bucket] + counts[bucket]]:
                if old >= best:
                    break
                if compared_with[old] == text:
                    continue
                compared_with[old] = text
                if alike(sequences, spans[old], spans[text], jaccard):
                    best = old
                    break
        result[text] = best
        if best == text:
            for row in rows[starts[text] : starts[text + 1]]:
                bucket = bucket_of[row]
                known[first[bucket] + counts[bucket]] = text
                counts[bucket] += 1
    return result
