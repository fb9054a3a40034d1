"""Search training documents for runs of words that also occur in evaluation problems.

    search = OverlapSearch(problems, words=10)
    search.add("code", "src/a.py", "text of a training document")
    search.longest[0]  # the longest run shared with problem 0: Overlap(length, dataset, document, words)
    search.longest_overlap("text of a training document")  # (problem, words of the longest run that it shares)

n-grams shared by many problems of a dataset are boilerplate (a system prompt, a list of includes) and are ignored.

A word is a run of letters, digits and underscores; a Han character is a word by itself. Case and everything between
words are ignored. A document is hashed in one pass over its characters. Where a hash equals one of the problems', the
words themselves are compared, so a collision costs time but never gives a false match.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import njit

from scripts.common.errors import UserError
from scripts.common.text import CJK
from scripts.corpus.formats.record_readers import format_of, json_lines, json_list
from scripts.experiment.machine_files import read_yaml

# An n-gram of a document that occurs in the texts: (words of the document, index of the n-gram's first word, places).
# A place is (number of a text, index of the n-gram's first word in it).
Match = tuple[list[str], int, list[tuple[int, int]]]

HAN = CJK.pattern[1:-1]
WORD = re.compile(rf"[{HAN}]|[^\W{HAN}]+")
# 64-bit hashes: FNV-1a's prime over the characters of a word, Knuth's multiplier (MMIX) over words
PRIMES = (0x100000001B3, 0x5851F42D4C957F2D)


def words(text: str) -> list[str]:
    """The words of a text in their order, case-folded."""
    return WORD.findall(text.casefold())


@cache
def character_kinds() -> np.ndarray:
    """uint8 [0x110000], by code point: 0 between words, 1 part of a word, 2 a word by itself."""
    characters = "".join(map(chr, range(0x110000)))
    table = np.zeros(len(characters), np.uint8)
    for kind, pattern in enumerate((r"\w+", rf"[{HAN}]+"), 1):
        for run in re.finditer(pattern, characters):
            table[run.start() : run.end()] = kind
    return table


@njit(cache=True)
def rolling_hashes(codes, kind_of, size, prime, multiplier, table):
    """(uint64 [n-grams], int64 [n-grams]): hashes that may match, and the index of each n-gram's first word.

    The hash of an n-gram is Σ hash of a word * multiplier^(number of words after it), modulo 2^64.

    Args:
        codes: uint32 [characters].
        prime, multiplier: uint64.
        table: uint8 [a power of two], a bit for each value of the low bits of a hash's upper half: whether one of the
            texts' hashes has that value. It fits into a core's cache and saves the search for almost all n-grams.
    """
    matched, starts, ring = np.empty(len(codes), np.uint64), np.empty(len(codes), np.int64), np.zeros(size, np.uint64)
    leaving, mask = np.uint64(1), np.uint64(8 * len(table) - 1)
    for _ in range(size):
        leaving *= multiplier  # the factor of the word that leaves the window
    count, hits, slot, total, at = 0, 0, 0, np.uint64(0), 0
    while at < len(codes):
        kind = kind_of[codes[at]]
        if kind == 0:
            at += 1
            continue
        word = np.uint64(codes[at]) * prime
        at += 1
        while kind == 1 and at < len(codes) and kind_of[codes[at]] == 1:
            word = (word ^ np.uint64(codes[at])) * prime
            at += 1
        total = total * multiplier + word - ring[slot] * leaving
        ring[slot] = word
        slot = slot + 1 if slot + 1 < size else 0
        count += 1
        bit = (total >> np.uint64(32)) & mask
        if count >= size and (table[bit >> np.uint64(3)] >> (bit & np.uint64(7))) & np.uint64(1):
            matched[hits], starts[hits] = total, count - size
            hits += 1
    return matched[:hits], starts[:hits]


def hashes(text: str, size: int, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`rolling_hashes` of a text."""
    codes = np.frombuffer(text.casefold().encode("utf-32-le", "surrogatepass"), np.uint32)
    prime, multiplier = map(np.uint64, PRIMES)
    return rolling_hashes(codes, character_kinds(), size, prime, multiplier, table)


class NGrams:
    """The n-grams of some texts, which documents are searched for.

    Attributes:
        words: the words of each text.
        sizes: int64 [texts], number of n-grams of each text.
    """

    def __init__(self, texts: list[str], size: int):
        self.size, self.words = size, [words(text) for text in texts]
        hashed = [hashes(text, size, np.full(1, 255, np.uint8))[0] for text in texts]
        self.sizes = np.array([len(text_hashes) for text_hashes in hashed], np.int64)
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.keys, key_of = np.unique(np.concatenate([np.empty(0, np.uint64), *hashed]), return_inverse=True)
        self.order = np.argsort(key_of, kind="stable")  # n-grams sorted by hash; they are numbered through all texts
        self.bounds = np.searchsorted(key_of[self.order], np.arange(len(self.keys) + 1))
        self.matched, self.open = (
            np.zeros(len(key_of), bool),
            np.ones(len(self.keys), bool),
        )  # open: not all matched yet
        # a Bloom filter with one hash; at most one bit in 32 is set
        bits = np.zeros(1 << max(16, (32 * len(self.keys)).bit_length()), bool)
        bits[(self.keys >> np.uint64(32)) & np.uint64(len(bits) - 1)] = True
        self.table = np.packbits(bits, bitorder="little")

    def place(self, number: int) -> tuple[int, int]:
        """(number of the text, index of the word) where n-gram `number` begins."""
        text = int(np.searchsorted(self.starts, number, "right")) - 1
        return text, int(number - self.starts[text])

    def candidates(self, text: str) -> Iterator[tuple[int, int]]:
        """(index of the first word in `text`, index in `keys`) of each n-gram whose hash matches."""
        hashed, starts = hashes(text, self.size, self.table)
        keys = np.searchsorted(self.keys, hashed).clip(max=len(self.keys) - 1)
        right = self.keys[keys] == hashed
        return zip(starts[right].tolist(), keys[right].tolist(), strict=True)

    def matches(self, text: str) -> Iterator[Match]:
        """Each n-gram of the texts that occurs in `text`, whether or not an earlier document had it."""
        document = None
        for at, key in self.candidates(text):
            document = document or words(text)
            gram, places = document[at : at + self.size], []
            for number in self.order[self.bounds[key] : self.bounds[key + 1]].tolist():
                text_number, start = self.place(number)
                if self.words[text_number][start : start + self.size] == gram:
                    places.append((text_number, start))
            if places:
                yield document, at, places

    def new_matches(self, text: str) -> Iterator[Match]:
        """Each n-gram of the texts that occurs in `text` and was in no document given before."""
        document = None
        for at, key in self.candidates(text):
            if not self.open[key]:  # matched a few words before
                continue
            document = document or words(text)
            gram, numbers = document[at : at + self.size], self.order[self.bounds[key] : self.bounds[key + 1]]
            equal = {}
            for number in numbers[~self.matched[numbers]].tolist():
                text_number, start = self.place(number)
                if self.words[text_number][start : start + self.size] == gram:
                    equal[number] = text_number, start
            if equal:
                self.matched[list(equal)] = True
                self.open[key] = not self.matched[numbers].all()
                yield document, at, list(equal.values())


COMMON = 0.05  # n-grams that a larger share of a group's problems contain are boilerplate
LONGEST_SHOWN = 1000  # characters of a run that are kept as evidence


class ProblemText(NamedTuple):
    """A scored problem; `text` is its prompt and its reference or published solution."""

    suite: str
    dataset: str
    id: str
    language: str
    text: str

    @property
    def groups(self) -> list[tuple[str, str, str]]:
        """The groups in which boilerplate is counted: the whole dataset, and its problems in the same language."""
        return [(self.suite, self.dataset, language) for language in ("all", self.language)]


class Overlap(NamedTuple):
    """A run of words that a problem shares with a training document."""

    length: int  # in words
    dataset: str
    document: str
    words: str


class OverlapSearch:
    """Finds out which problems share n-grams with the training documents.

    Args:
        words: number of words of an n-gram.
        common: n-grams that more than this share of a group's problems contain are ignored.

    Attributes:
        shared: index of a problem → how many of its n-grams occur in the documents, boilerplate left out.
        longest: index of a problem → the longest run around such an n-gram; only problems that overlap.
    """

    def __init__(self, problems: list[ProblemText], words: int, common: float = COMMON):
        self.problems, self.grams = problems, NGrams([problem.text for problem in problems], words)
        sizes = Counter()
        for problem in problems:
            sizes.update(set(problem.groups))
        self.most_holders = {group: max(1, common * size) for group, size in sizes.items()}
        self.shared, self.longest = Counter(), {}

    def without_boilerplate(self, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The places (problem, word) of one n-gram, without problems in whose groups many problems contain it."""
        holders = defaultdict(set)
        for problem, _ in places:
            for group in self.problems[problem].groups:
                holders[group].add(problem)
        return [
            (problem, start)
            for problem, start in places
            if all(len(holders[group]) <= self.most_holders[group] for group in self.problems[problem].groups)
        ]

    def runs(self, matches: Iterable[Match]) -> Iterator[tuple[int, list[str]]]:
        """(index of a problem, words of the run that it shares with a document) for each n-gram of the document.

        The words are empty if the n-gram is part of a run that was yielded before.
        """
        ends = {}  # (problem, offset of its words in the document) → end of the last run
        for document_words, at, places in matches:
            for problem, start in self.without_boilerplate(places):
                line, words = (problem, at - start), self.grams.words[problem]
                if start < ends.get(line, 0):
                    yield problem, []
                    continue
                first, last = common_run(words, start, document_words, at, self.grams.size)
                ends[line] = last
                yield problem, words[first:last]

    def add(self, dataset: str, document: str, text: str) -> None:
        """Count a training document: its n-grams that no earlier document had."""
        for problem, run in self.runs(self.grams.new_matches(text)):
            self.shared[problem] += 1
            if run and (problem not in self.longest or len(run) > self.longest[problem].length):
                self.longest[problem] = Overlap(len(run), dataset, document, " ".join(run)[:LONGEST_SHOWN])

    def longest_overlap(self, text: str) -> tuple[ProblemText, list[str]] | None:
        """(problem, words) of the longest run that `text` shares with any problem; None if there is none."""
        problem, run = max(self.runs(self.grams.matches(text)), key=lambda pair: len(pair[1]), default=(0, []))
        if run:
            return (self.problems[problem], run)
        return None


def common_run(words: list[str], start: int, other_words: list[str], at: int, size: int) -> tuple[int, int]:
    """[first, last) of `words`: the longest run that both lists share around `size` equal words at `start` and `at`."""
    first, last, shift = start, start + size, at - start
    while first and first + shift and words[first - 1] == other_words[first - 1 + shift]:
        first -= 1
    while last < len(words) and last + shift < len(other_words) and words[last] == other_words[last + shift]:
        last += 1
    return first, last


# Problems are read in almost any format: JSON lines or a list, also gzipped, or YAML with a mapping of cases by name.
# Only these fields are read, which hold prompts and solutions; tests are not.
FIELDS = (
    *("prompt", "declaration", "text", "question", "instruction", "input", "problem", "description", "content"),
    *("canonical_solution", "code", "solution", "answer", "output", "response", "reference"),
)
IDS = ("task_id", "id", "name", "question_id", "problem_id")


def read_records(path: Path) -> list[tuple[str, object]]:
    """(name, record) of each record of a file; the name is used if the record has no id."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; corpus.filter.decontaminate reads the benchmarks' problems from it")
    readers = {".jsonl": json_lines, ".jsonl.gz": json_lines, ".json": json_list}
    if path.suffix in (".yaml", ".yml"):
        records = [(str(name), record) for name, record in read_yaml(path).items()]
    elif reader := readers.get(format_of(path)):
        records = [(str(number), record) for number, record in reader(path)]
    else:
        raise UserError(f"{path}: format not supported; use {', '.join(readers)} or .yaml")
    if not records:
        raise UserError(f"{path}: holds no problem")
    return records


def problem_of(path: Path, name: str, record: object) -> ProblemText:
    """The problem in a record."""
    if isinstance(record, dict):
        texts = [record[key] for key in FIELDS if isinstance(record.get(key), str)]
    else:
        texts = []
    if not texts:
        raise UserError(f"{path}: record {name}: no text; it must have one of the fields {', '.join(FIELDS)}")
    identity = next((str(record[key]) for key in IDS if isinstance(record.get(key), str | int)), name)
    return ProblemText("", path.name, identity, str(record.get("language", "")), "\n".join(texts))


def read_problems(paths: list[Path]) -> list[ProblemText]:
    """The problems of all files. Raises UserError: a file cannot be read, or a record holds no text."""
    found = []
    for path in paths:
        for name, record in read_records(path):
            found.append(problem_of(path, name, record))
    return found
