"""Search training documents for runs of words that also occur in evaluation problems.

    search = OverlapSearch(problems, words=10)
    search.add("code", "src/a.py", "text of a training document")
    search.longest[0]  # the longest run shared with problem 0: Overlap(length, dataset, document, words)
    search.longest_overlap("text of a training document")  # (problem, words of the longest run that it shares)

n-grams shared by many problems of a dataset are boilerplate (a system prompt, a list of includes) and are ignored.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scripts.corpus.similarity.ngrams import Match, NGrams

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
        sizes = Counter(group for problem in problems for group in set(problem.groups))
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
        return (self.problems[problem], run) if run else None


def common_run(words: list[str], start: int, other_words: list[str], at: int, size: int) -> tuple[int, int]:
    """[first, last) of `words`: the longest run that both lists share around `size` equal words at `start` and `at`."""
    first, last, shift = start, start + size, at - start
    while first and first + shift and words[first - 1] == other_words[first - 1 + shift]:
        first -= 1
    while last < len(words) and last + shift < len(other_words) and words[last] == other_words[last + shift]:
        last += 1
    return first, last
