"""Which functions of a repository are tasks: tried one by one, in the order of their hashes, against its own tests.

chosen = Choice(judge, repository, settings).tasks(trained_on)
chosen.kept, chosen.losses       # [RepositoryTask, ...], {"not covered": 12, "flaky": 1, ...}
"""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from scripts.common.hashing import text_digest
from scripts.evaluation.code_tasks.occurrences import Answers
from scripts.evaluation.repository_functions.functions import Function, functions
from scripts.evaluation.repository_functions.task import RepositoryTask
from scripts.evaluation.suites.repository_tests import RepositoryTasks
from scripts.judge.repositories.problem import Lines
from scripts.judge.repositories.repository import Repository
from scripts.judge.repositories.repository_judge import Outcome, RepositoryJudge

MASKED = "raise NotImplementedError"
TRIES = 30  # functions of a source that are tried as tasks
LONGEST = 20  # lines of a function's body
TESTS = 20  # of a task, chosen from those that execute its function
SUITE_SECONDS = 300  # for all tests of a source, which run once
# why a repository has no task at all
OF_SOURCES = ("no tests", "environment", "tests fail", "no functions")
# why a function is no task, in the order of the checks
OF_FUNCTIONS = (
    "too long",
    "coroutine",
    "not covered",
    "occurs elsewhere",
    "in training",
    "not tried",
    "not separable",
    "still passes when masked",
    "trivial body passes",
    "flaky",
)


@dataclass
class Selection:
    """The tasks of a source.

    Attributes:
        cause: why there are none, one of OF_SOURCES; empty if tests ran.
        detail: the message of that cause.
        functions: number of functions with a body of at least two lines.
        tests: numbers of tests that passed and that ran.
        losses: cause of OF_FUNCTIONS → number of functions.
        separations: why functions were not separable → number of functions.
    """

    cause: str = ""
    detail: str = ""
    functions: int = 0
    tests: tuple[int, int] = (0, 0)
    kept: list[RepositoryTask] = field(default_factory=list)
    losses: Counter = field(default_factory=Counter)
    separations: Counter = field(default_factory=Counter)

    def counts(self) -> dict:
        """The counts of this source in the manifest."""
        return {
            **({"cause": self.cause, "detail": self.detail[:500]} if self.cause else {}),
            "tests_passed": self.tests[0],
            "tests_ran": self.tests[1],
            "functions": self.functions,
            "tasks": len(self.kept),
            **{cause: self.losses[cause] for cause in OF_FUNCTIONS},
            "not_separable": dict(sorted(self.separations.items())),
        }


def occurs_elsewhere(repository: Repository, path: str, before: str, answer: str, after: str) -> bool:
    """Whether the lines of a body occur again in its file or in another file of the packages."""
    answers = Answers({0: answer})
    texts = [before, after, *(repository.text(other) for other in repository.modules if other != path)]
    return any(answers.occurring_in(text) for text in texts)


def separation_cause(outcome: Outcome) -> str:
    """Why the repository's own body does not pass in two processes, in a few words."""
    for words in ("unsendable", "refused", "unreadable", "does not load", "timeout", "memory"):
        if words in f"{outcome.outcome} {outcome.detail[:40]}":
            return words
    return "behaves otherwise"


class TaskSelector:
    """Selects the tasks of a repository."""

    def __init__(self, judge: RepositoryJudge, repository: Repository, settings: RepositoryTasks):
        self.judge, self.repository, self.settings = judge, repository, settings

    def functions(self) -> list[Function]:
        repository = self.repository
        all_functions = []
        for path, module in repository.modules.items():
            try:
                all_functions += functions(path, module, repository.text(path))
            except UnicodeDecodeError:
                continue
        return sorted(
            all_functions,
            key=lambda function: text_digest(
                f"{function.path}:{function.name}:{function.cut(repository.text(function.path)).answer}"
            ),
        )

    def task(self, function: Function, tests: list[str]) -> RepositoryTask:
        path, region = function.path, function.region
        name = f"{self.repository.name}/{path}:{region.first + 1}-{region.last + 1}"
        parts = function.cut(self.repository.text(path))
        tests = sorted(sorted(tests, key=text_digest)[:TESTS])
        place = {"module": function.module, "function": function.name, "line": function.line, "tests": tests}
        return RepositoryTask(name, "function", "python", self.repository.name, path, *parts, **place)

    def rejection_cause(self, task: RepositoryTask, function: Function, selection: Selection) -> str:
        """Why a function is no task; empty if it is one: then `task.names` and `task.kinds` are filled in."""
        own_verdict = self.judge.judge(task, task.answer, record=True)
        if own_verdict.outcome != "passed":
            selection.separations[separation_cause(own_verdict)] += 1
            return "not separable"
        task.names, task.kinds = list(own_verdict.names), list(own_verdict.kinds)
        if self.judge.judge(task, MASKED).outcome == "passed":
            return "still passes when masked"
        first = function.first_argument
        if any(
            self.judge.judge(task, body).outcome == "passed" for body in ["pass", *[f"return {first}"] * bool(first)]
        ):
            return "trivial body passes"
        if any(self.judge.judge(task, task.answer, seed=seed).outcome != "passed" for seed in (1, 2)):
            return "flaky"
        return ""

    def select(self, trained_on: Callable[[list[RepositoryTask]], set[int]]) -> Selection:
        """The tasks of the repository.

        Args:
            trained_on: gives the indices of the tasks whose answers occur in the training data.
        """
        candidates, settings = self.functions(), self.settings
        if not self.repository.tests:
            return Selection(
                "no tests",
                "no file test_*.py or *_test.py, and no tests.py that imports pytest or unittest",
                len(candidates),
            )
        if not candidates:
            return Selection("no functions", "no package or module in ./, src/ or lib/ has one")
        places = [Lines(each.path, each.region.first + 1, each.region.last + 1) for each in candidates]
        report = self.judge.covered(places, SUITE_SECONDS)
        if report.get("fault") or not report["ran"]:
            errors = report.get("fault") or "; ".join(report["errors"]) or "pytest found no test"
            return Selection("environment", errors, len(candidates))
        passed = set(report["passed"])
        selection = Selection(functions=len(candidates), tests=(len(passed), len(report["ran"])))
        if not passed:
            selection.cause, selection.detail = "tests fail", "; ".join(report["errors"])
            return selection
        possible, tasks = [], []
        for function, reaching in zip(candidates, report["reached"], strict=True):
            tests = [name for name in reaching if name in passed]
            cause = (
                ("too long" if function.lines > LONGEST else "")
                or ("coroutine" if function.coroutine else "")
                or ("" if tests else "not covered")
            )
            task = None if cause else self.task(function, tests)
            if task and occurs_elsewhere(self.repository, task.path, task.before, task.answer, task.after):
                cause = "occurs elsewhere"
            if cause:
                selection.losses[cause] += 1
            else:
                possible.append(function)
                tasks.append(task)
        in_training = trained_on(tasks)
        selection.losses["in training"] += len(in_training)
        tried = 0
        for number, (function, task) in enumerate(zip(possible, tasks, strict=True)):
            if number in in_training:
                continue
            if tried == TRIES or len(selection.kept) == settings.tasks:
                selection.losses["not tried"] += 1
                continue
            tried += 1
            if cause := self.rejection_cause(task, function, selection):
                selection.losses[cause] += 1
            else:
                selection.kept.append(task)
        selection.kept.sort(key=lambda task: task.id)
        return selection


def log(name: str, selection: Selection) -> None:
    """Log a line about a source."""
    if selection.cause:
        logging.info(f"repository tasks: {name}: none: {selection.cause}: {' '.join(selection.detail.split())[:300]}")
        return
    losses = ", ".join(f"{selection.losses[cause]} {cause}" for cause in OF_FUNCTIONS if selection.losses[cause])
    logging.info(
        f"repository tasks: {name}: {len(selection.kept)} tasks of {selection.functions} functions,"
        f" {selection.tests[0]} of {selection.tests[1]} tests pass; {losses}"
    )
