"""What the judge must know of a repository's function whose body it judges."""

from typing import NamedTuple, Protocol


class Lines(NamedTuple):
    """Lines of a file below the repository's root, from 1, both included."""

    path: str
    first: int
    last: int


class RepositoryProblem(Protocol):
    """A function of a repository, and the tests that must pass with another body.

    Attributes:
        path: its file, below the repository's root.
        before: the file's text up to the body.
        after: the file's text behind the body.
        module, function, line: where it is found once its module is imported.
        tests: the tests that run it, as pytest names them.
        names, kinds: classes and functions that the repository's own body gives back in these tests, and the kinds of
            objects that it changes; no other body may do more.
    """

    path: str
    before: str
    after: str
    module: str
    function: str
    line: int
    tests: list[str]
    names: list[str]
    kinds: list[str]
