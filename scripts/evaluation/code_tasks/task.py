"""A task of suite `completion`: a file with an answer to be written."""

from dataclasses import dataclass

SIZES = ("line", "function")  # what is to be written: a line, or the body of a function


@dataclass
class Task:
    """A file with an answer to be written.

    Attributes:
        id: file and lines, from 1.
        before: the file's text up to the answer.
    """

    id: str
    size: str
    language: str
    source: str
    path: str
    before: str
    answer: str
    after: str
