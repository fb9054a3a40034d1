"""Clusters of texts that resemble each other: candidates with an equal band, each pair compared exactly.

A pair is joined if the exact Jaccard similarity of its sets of word sequences is at least the threshold; a cluster is
all that is joined, directly or through others. Its first member stands for it.
"""

import numpy as np
from numba import njit

from scripts.corpus.similarity.minhash import NO_WORDS

# Beyond so many texts with one band, a text is compared with one text of each cluster among them, not with all.
ALL_PAIRS = 256


def sharing(bands: np.ndarray) -> np.ndarray:
    """bool [texts]: which have a band that another one has too."""
    shared = np.zeros(len(bands), bool)
    for band in bands.T:
        order = np.argsort(band, kind="stable")
        equal = (band[order][1:] == band[order][:-1]) & (band[order][1:] != NO_WORDS)
        shared[order[1:][equal]] = shared[order[:-1][equal]] = True
    return shared


@njit(cache=True)
def alike(members, first, second, jaccard):
    """Whether two sorted sets, `members[first[0]:first[1]]` and the same of `second`, are at least `jaccard` alike."""
    i, end, j, stop = first[0], first[1], second[0], second[1]
    sizes = end - i + stop - j
    # |A and B| >= t |A or B| is |A and B| >= t / (1 + t) (|A| + |B|); a guard against rounding at exactly the threshold
    needed = jaccard / (1 + jaccard) * sizes - 1e-9
    if min(end - i, stop - j) < needed:
        return False
    common = 0
    while i < end and j < stop:
        if members[i] == members[j]:
            common += 1
            i += 1
            j += 1
        elif members[i] < members[j]:
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
def clusters(bands, members, offsets, jaccard):
    """int64 [texts]: the first member of each text's cluster.

    Args:
        bands: uint64 [texts, bands].
        members: uint64, the sorted sets of sequences of all texts, one after the other.
        offsets: int64 [texts + 1].
    """
    parents = np.arange(len(bands))
    refused = {np.int64(-1)}  # pairs, as one number each
    for band in range(bands.shape[1]):
        column = bands[:, band].copy()
        order = np.argsort(column, kind="mergesort")
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and column[order[end]] == column[order[start]]:
                end += 1
            if column[order[start]] != NO_WORDS:
                heads = [order[start]]
                for at in range(start + 1, end):
                    new = order[at]
                    joined = False
                    for old in heads:
                        old_root, new_root = root(parents, old), root(parents, new)
                        if old_root == new_root:
                            joined = True
                        elif old * len(bands) + new not in refused:
                            first, second = (offsets[old], offsets[old + 1]), (offsets[new], offsets[new + 1])
                            if alike(members, first, second, jaccard):
                                parents[max(old_root, new_root)] = min(old_root, new_root)
                                joined = True
                            else:
                                refused.add(old * len(bands) + new)
                    if not joined or end - start <= ALL_PAIRS:
                        heads.append(new)
            start = end
    return np.array([root(parents, text) for text in range(len(bands))])
