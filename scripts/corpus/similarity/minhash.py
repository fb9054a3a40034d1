"""Word sequences of texts, and MinHash signatures of them, in one pass of compiled code.

    plan = bands_of(permutations=256, jaccard=0.7, recall=0.99)         # (42 bands, 6 values each)
    sketch(text, offsets, 5, *coefficients(256), *plan)                 # uint64 [documents, 42]

Words are runs of letters, digits, `_` and non-ASCII bytes, as in BigCode's deduplication of The Stack; a text is the
set of its sequences of `words` words. A signature holds, for each of many permutations of all sequences, the least one
that the text has (Broder 1997); of two texts a share of these values is equal that estimates their Jaccard similarity.
They are kept as hashes of bands: texts with an equal band are candidates, which `representatives` compares exactly.
"""

import numpy as np
from numba import njit

from scripts.common.splitmix64 import U64, mixed

U32 = np.uint32
OFFSET, PRIME = U64(0xCBF29CE484222325), U64(0x100000001B3)  # FNV-1a
NO_WORDS = U64(0)  # the bands of a text without words

IN_WORD = np.array([byte >= 0x80 or byte == ord("_") or chr(byte).isalnum() for byte in range(256)])


JACCARD = 0.7  # documents are similar if their sets of word sequences have at least this Jaccard similarity
WORDS = 5  # of a sequence


def bands_of(permutations: int, jaccard: float, recall: float) -> tuple[int, int]:
    """(bands, values of each): as few bands as find a share `recall` of the pairs that are exactly `jaccard` alike."""
    for values in range(permutations, 1, -1):
        bands = permutations // values
        if 1 - (1 - jaccard**values) ** bands >= recall:
            return bands, values
    return permutations, 1


def coefficients(permutations: int) -> tuple[np.ndarray, np.ndarray]:
    """The odd factors and the summands of the permutations, uint32 [permutations] each; always the same ones."""
    draws = np.random.RandomState(1).randint(0, 2**32, (2, permutations), dtype=np.uint32)  # NEP 19: a frozen stream
    return draws[0] | U32(1), draws[1]


@njit(cache=True)
def sequences(text, start, end, words, recent, hashes):
    """Write a hash of each sequence of `words` words in `text[start:end]` to `hashes`; returns how many.

    A text of fewer words is one sequence. `recent` has room for `words` hashes.
    """
    count, seen, at = 0, 0, start
    while at < end:
        if not IN_WORD[text[at]]:
            at += 1
            continue
        value = OFFSET
        while at < end and IN_WORD[text[at]]:
            value = (value ^ U64(text[at])) * PRIME
            at += 1
        recent[seen % words] = value
        seen += 1
        if seen >= words:
            value = OFFSET
            for k in range(words):
                value = mixed(value ^ recent[(seen + k) % words]) + PRIME
            hashes[count] = value
            count += 1
    if 0 < seen < words:
        value = OFFSET
        for k in range(seen):
            value = mixed(value ^ recent[k]) + PRIME
        hashes[0] = value
        count = 1
    return count


@njit(cache=True)
def sketch(text, offsets, words, factors, summands, bands, values):
    """The bands of each text, uint64 [texts, bands]; NO_WORDS in all of a text without words. `text`: uint8 [bytes] of
    all texts, one after the other; `offsets`: int64 [texts + 1]."""
    longest = 0
    for number in range(len(offsets) - 1):
        longest = max(longest, offsets[number + 1] - offsets[number])
    hashes, recent = np.empty(longest // 2 + 1, np.uint64), np.empty(words, np.uint64)
    least = np.empty(len(factors), np.uint32)
    result = np.zeros((len(offsets) - 1, bands), np.uint64)
    for number in range(len(offsets) - 1):
        count = sequences(text, offsets[number], offsets[number + 1], words, recent, hashes)
        if count == 0:
            continue
        least[:] = U32(0xFFFFFFFF)
        for k in range(count):
            base = U32(hashes[k] >> U64(32))
            for permutation in range(len(factors)):
                value = U32(base * factors[permutation] + summands[permutation])
                least[permutation] = min(least[permutation], value)
        for band in range(bands):
            value = U64(band + 1)
            for k in range(band * values, (band + 1) * values):
                value = mixed(value ^ U64(least[k])) + PRIME
            result[number, band] = value | U64(1)
    return result


@njit(cache=True)
def sequence_set(text, words):
    """The sorted hashes of the different sequences of a text, uint64."""
    hashes = np.empty(len(text) // 2 + 1, np.uint64)
    hashes = np.sort(hashes[: sequences(text, 0, len(text), words, np.empty(words, np.uint64), hashes)])
    count = 0
    for k in range(len(hashes)):
        if k == 0 or hashes[k] != hashes[count - 1]:
            hashes[count] = hashes[k]
            count += 1
    return hashes[:count].copy()


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
