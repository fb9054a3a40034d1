"""n-grams of words that a few texts share with very many others: exact, though almost all are looked up by a hash only.

    grams = NGrams(["the text of a problem", "of another"], size=10)
    for there, at, places in grams.new_in("a training document"): ...

A word is a run of letters, digits and underscores, a Han character is one by itself; case does not count, and neither
does what stands between words. A text is hashed in one pass over its characters. Where a hash is one of the few texts'
the words themselves are compared, so a collision costs time and is never a find.
"""

import re
from collections.abc import Iterator
from functools import cache

import numpy as np
from numba import njit

from scripts.evaluation.metrics.exact_match import CJK

HAN = CJK.pattern[1:-1]
WORD = re.compile(rf"[{HAN}]|[^\W{HAN}]+")
# of the 64-bit hashes: FNV-1a's prime over the characters of a word, Knuth's multiplier (MMIX) over words
PRIMES = (0x100000001B3, 0x5851F42D4C957F2D)


def words(text: str) -> list[str]:
    """The words of a text in their order, case-folded."""
    return WORD.findall(text.casefold())


@cache
def kinds() -> np.ndarray:
    """uint8 [0x110000], of each character: 0 between words, 1 part of one, 2 one by itself."""
    characters = "".join(map(chr, range(0x110000)))
    found = np.zeros(len(characters), np.uint8)
    for kind, pattern in enumerate((r"\w+", rf"[{HAN}]+"), 1):
        for run in re.finditer(pattern, characters):
            found[run.start() : run.end()] = kind
    return found


@njit(cache=True)
def rolled(codes, kinds, size, prime, multiplier, table):
    """(uint64 [n-grams], int64 [n-grams]): hashes that may be looked for, and the word where each n-gram begins.

    The hash of an n-gram is Σ hash of a word * multiplier^(words behind it), modulo 2^64.

    Args:
        codes: uint32 [characters].
        prime, multiplier: uint64.
        table: uint8 [a power of two], a bit for each value of the low bits of a hash's upper half: whether there is a
            hash looked for that has them. Small enough for a core's cache, it spares a search for almost all.
    """
    found, starts, ring = np.empty(len(codes), np.uint64), np.empty(len(codes), np.int64), np.zeros(size, np.uint64)
    leaving, mask = np.uint64(1), np.uint64(8 * len(table) - 1)
    for _ in range(size):
        leaving *= multiplier  # what the word that falls out was multiplied by
    count, hits, slot, total, at = 0, 0, 0, np.uint64(0), 0
    while at < len(codes):
        kind = kinds[codes[at]]
        if kind == 0:
            at += 1
            continue
        word = np.uint64(codes[at]) * prime
        at += 1
        while kind == 1 and at < len(codes) and kinds[codes[at]] == 1:
            word = (word ^ np.uint64(codes[at])) * prime
            at += 1
        total = total * multiplier + word - ring[slot] * leaving
        ring[slot] = word
        slot = slot + 1 if slot + 1 < size else 0
        count += 1
        bit = (total >> np.uint64(32)) & mask
        if count >= size and (table[bit >> np.uint64(3)] >> (bit & np.uint64(7))) & np.uint64(1):
            found[hits], starts[hits] = total, count - size
            hits += 1
    return found[:hits], starts[:hits]


def hashes(text: str, size: int, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`rolled` of a text."""
    codes = np.frombuffer(text.casefold().encode("utf-32-le", "surrogatepass"), np.uint32)
    prime, multiplier = map(np.uint64, PRIMES)
    return rolled(codes, kinds(), size, prime, multiplier, table)


class NGrams:
    """The n-grams of some texts, each to be found once.

    Attributes:
        words: of each text.
        sizes: int64 [texts], how many n-grams each has.
    """

    def __init__(self, texts: list[str], size: int):
        self.size, self.words = size, [words(text) for text in texts]
        hashed = [hashes(text, size, np.full(1, 255, np.uint8))[0] for text in texts]
        self.sizes = np.array([len(one) for one in hashed], np.int64)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.keys, which = np.unique(np.concatenate([np.empty(0, np.uint64), *hashed]), return_inverse=True)
        self.order = np.argsort(which, kind="stable")  # n-grams by hash, each numbered through all texts
        self.bounds = np.searchsorted(which[self.order], np.arange(len(self.keys) + 1))
        self.found, self.wanted = np.zeros(len(which), bool), np.ones(len(self.keys), bool)
        # at most one bit in 32 is set
        bits = np.zeros(1 << max(16, (32 * len(self.keys)).bit_length()), bool)
        bits[(self.keys >> np.uint64(32)) & np.uint64(len(bits) - 1)] = True
        self.table = np.packbits(bits, bitorder="little")

    def place(self, number: int) -> tuple[int, int]:
        """(text, its word) where an n-gram begins."""
        text = int(np.searchsorted(self.starts, number, "right")) - 1
        return text, int(number - self.starts[text])

    def candidates(self, text: str) -> Iterator[tuple[int, int]]:
        """(word of `text`, key) of what may be an n-gram that was not found yet."""
        hashed, starts = hashes(text, self.size, self.table)
        keys = np.searchsorted(self.keys, hashed).clip(max=len(self.keys) - 1)
        right = (self.keys[keys] == hashed) & self.wanted[keys]
        return zip(starts[right].tolist(), keys[right].tolist(), strict=True)

    def new_in(self, text: str) -> Iterator[tuple[list[str], int, list[tuple[int, int]]]]:
        """Of each n-gram that was in no earlier text: (words of `text`, which of them it begins at, its places).

        A place is (one of the few texts, the word that the n-gram begins at there).
        """
        there = None
        for at, key in self.candidates(text):
            if not self.wanted[key]:  # found a few words before
                continue
            there = there or words(text)
            gram, same = there[at : at + self.size], self.order[self.bounds[key] : self.bounds[key + 1]]
            equal = {}
            for number in same[~self.found[same]].tolist():
                one, start = self.place(number)
                if self.words[one][start : start + self.size] == gram:
                    equal[number] = one, start
            if equal:
                self.found[list(equal)] = True
                self.wanted[key] = not self.found[same].all()
                yield there, at, list(equal.values())
