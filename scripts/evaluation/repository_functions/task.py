"""A task of suite `repository_tests`: a function whose body is to be written, and the tests that must then pass."""

from dataclasses import dataclass, field

from scripts.evaluation.code_tasks.task import Task


@dataclass
class RepositoryTask(Task):
    """A function of a repository.

    Attributes:
        module, function, line: where it is found once its module is imported.
        tests: the tests that run it, as pytest names them.
        names, kinds: classes and functions that the repository's own body gives back in these tests, and the kinds of
            objects that it changes; no other body may do more.
    """

    module: str = ""
    function: str = ""
    line: int = 0
    tests: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
