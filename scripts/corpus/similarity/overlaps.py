"""Search training documents for runs of words that evaluation problems contain.

    search = OverlapSearch(problems, words=10, common=0.05)
    search.add("code", "src/a.py", "text of a training document")
    search.longest[0]  # the longest run shared with problem 0: Overlap(length, dataset, document, words)
    search.worst("text of a training document")  # (problem, words) of the longest run that any problem shares with it

n-grams shared by many problems of a dataset are boilerplate (a system prompt, a list of includes) and are ignored.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from scripts.corpus.similarity.ngrams import Found, NGrams

LONGEST_SHOWN = 1000  # characters of a run that are kept as evidence


class ProblemText(NamedTuple):
    """A scored problem, and the text that is searched for: its prompt and its reference or published solution."""

    suite: str
    dataset: str
    id: str
    language: str
    text: str

    @property
    def groups(self) -> list[tuple[str, str, str]]:
        """The groups within which n-grams may be boilerplate: the dataset, and its problems of the same language."""
        return [(self.suite, self.dataset, language) for language in ("all", self.language)]


class Overlap(NamedTuple):
    """A run of words that a problem shares with a training document."""

    length: int  # in words
    dataset: str
    document: str
    words: str


class OverlapSearch:
    """Which problems share n-grams with the training documents.

    Args:
        words: of an n-gram.
        common: n-grams that more than this share of a group's problems contain are ignored.

    Attributes:
        shared: number of a problem → how many of its n-grams were found, ignored ones left out.
        longest: number of a problem → the longest run found around such an n-gram; only problems that overlap.
    """

    def __init__(self, problems: list[ProblemText], words: int, common: float):
        self.problems, self.grams = problems, NGrams([problem.text for problem in problems], words)
        sizes = Counter(group for problem in problems for group in set(problem.groups))
        self.most_holders = {group: max(1, common * size) for group, size in sizes.items()}
        self.shared, self.longest = Counter(), {}

    def without_boilerplate(self, places: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The places (problem, word) of one n-gram in those groups where few problems contain it."""
        holders = defaultdict(set)
        for problem, _ in places:
            for group in self.problems[problem].groups:
                holders[group].add(problem)
        return [
            (problem, start)
            for problem, start in places
            if all(len(holders[group]) <= self.most_holders[group] for group in self.problems[problem].groups)
        ]

    def runs(self, found: Iterable[Found]) -> Iterator[tuple[int, list[str]]]:
        """(problem, the words of the run that it shares) for each n-gram of one document; no words if it was told.

        Args:
            found: as the searches of `NGrams` give it.
        """
        ends = {}  # (problem, offset of its words in the document) → end of the last run found
        for document_words, at, places in found:
            for problem, start in self.without_boilerplate(places):
                line, words = (problem, at - start), self.grams.words[problem]
                if start < ends.get(line, 0):
                    yield problem, []
                    continue
                first, last = common_run(words, start, document_words, at, self.grams.size)
                ends[line] = last
                yield problem, words[first:last]

    def add(self, dataset: str, document: str, text: str) -> None:
        """Search one training document for n-grams that no earlier document had."""
        for problem, run in self.runs(self.grams.new_in(text)):
            self.shared[problem] += 1
            if run and (problem not in self.longest or len(run) > self.longest[problem].length):
                self.longest[problem] = Overlap(len(run), dataset, document, " ".join(run)[:LONGEST_SHOWN])

    def worst(self, text: str) -> tuple[ProblemText, list[str]] | None:
        """The problem with the longest run that it shares with `text`, and the run; None where none shares one."""
        problem, run = max(self.runs(self.grams.all_in(text)), key=lambda one: len(one[1]), default=(0, []))
        return (self.problems[problem], run) if run else None


def common_run(words: list[str], start: int, others: list[str], at: int, size: int) -> tuple[int, int]:
    """[first, last) of `words`: the longest run that both lists share around `size` equal words at `start` and `at`."""
    first, last, shift = start, start + size, at - start
    while first and first + shift and words[first - 1] == others[first - 1 + shift]:
        first -= 1
    while last < len(words) and last + shift < len(others) and words[last] == others[last + shift]:
        last += 1
    return first, last
