"""Join texts that resemble each other to clusters: of texts in one bucket each pair is compared exactly.

    first = join(members, sizes, sequences, offsets, jaccard=0.7)       # int64 [texts]

A bucket holds the texts with an equal band of their signatures. A pair is joined if the exact Jaccard similarity of its
sets of word sequences is at least the threshold; a cluster is all that is joined, directly or through others. Its first
member stands for it.
"""

import numpy as np
from numba import njit

# Of a bucket of more texts, a text is compared with one text of each cluster in it, not with all.
ALL_PAIRS = 256


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
def root(parents, text):
    while parents[text] != text:
        parents[text] = parents[parents[text]]
        text = parents[text]
    return text


@njit(cache=True)
def join(members, sizes, sequences, offsets, jaccard):
    """int64 [texts]: the first member of each text's cluster.

    Args:
        members: int64, the texts of all buckets, one bucket after the other.
        sizes: int64, how many texts each bucket has.
        sequences: uint64, the sorted sets of word sequences of all texts, one after the other.
        offsets: int64 [texts + 1], where the set of each text begins.
    """
    texts = len(offsets) - 1
    parents = np.arange(texts)
    refused = {np.int64(-1)}  # pairs, as one number each
    start = 0
    for size in sizes:
        bucket = members[start : start + size]
        start += size
        heads = [bucket[0]]
        for new in bucket[1:]:
            joined = False
            for old in heads:
                first, second = root(parents, old), root(parents, new)
                if first == second:
                    joined = True
                elif old * texts + new not in refused:
                    if alike(sequences, offsets[old : old + 2], offsets[new : new + 2], jaccard):
                        parents[max(first, second)] = min(first, second)
                        joined = True
                    else:
                        refused.add(old * texts + new)
            if not joined or size <= ALL_PAIRS:
                heads.append(new)
    return np.array([root(parents, text) for text in range(texts)])
