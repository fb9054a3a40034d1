"""Which functions of a repository are tasks: tried one by one, in the order of their hashes, against its own tests.

chosen = Choice(judge, repository, settings).tasks(trained_on)
chosen.kept, chosen.losses       # [RepositoryTask, ...], {"not covered": 12, "flaky": 1, ...}
"""

import ast
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from scripts.common.hashing import text_digest
from scripts.evaluation.code_tasks.occurrences import Answers
from scripts.evaluation.code_tasks.regions import Parts, Region, cut, regions
from scripts.evaluation.suites.repository_tests import RepositoryTask, RepositoryTasks
from scripts.judge.repositories.problem import Lines
from scripts.judge.repositories.repository import Repository
from scripts.judge.repositories.repository_judge import Outcome, RepositoryJudge

EVERY = 1_000_000  # lines; no function is longer


@dataclass(frozen=True)
class Function:
    """A function of a module.

    Attributes:
        name: with that of its class, as `Class.method`.
        line: where its code begins, its first decorator's line, from 1.
        region: its body without the docstring.
        first_argument: name of its first argument; empty if it has none.
        coroutine: whether it is `async`.
    """

    path: str
    module: str
    name: str
    line: int
    region: Region
    first_argument: str
    coroutine: bool

    @property
    def lines(self) -> int:
        return self.region.last - self.region.first + 1

    def cut(self, text: str) -> Parts:
        return cut(text, self.region)


def definitions(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """(name, definition) of every function of a module and its classes, also below `if` and `try`."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield owner + statement.name, statement
        elif isinstance(statement, ast.ClassDef):
            yield from definitions(statement.body, f"{owner}{statement.name}.")
        elif isinstance(statement, ast.If | ast.Try):
            for part in (statement.body, statement.orelse, getattr(statement, "finalbody", [])):
                yield from definitions(part, owner)


def functions(path: str, module: str, text: str) -> list[Function]:
    """The functions of a file with a body of at least two lines of its own; none if it does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    known, all_functions = {region for region in regions(text, "python", EVERY) if region.size == "function"}, []
    for name, definition in definitions(tree.body):
        documented = ast.get_docstring(definition, clean=False) is not None
        body = definition.body[1:] if documented else definition.body
        if not body:
            continue
        start = min([body[0].lineno, *(node.lineno for node in getattr(body[0], "decorator_list", []))])
        region = Region("function", start - 1, body[-1].end_lineno - 1)
        if region in known:
            signature = definition.args
            arguments = [
                *signature.posonlyargs,
                *signature.args,
                *filter(None, [signature.vararg]),
                *signature.kwonlyargs,
            ]
            line = min([definition.lineno, *(node.lineno for node in definition.decorator_list)])
            first = arguments[0].arg if arguments else ""
            coroutine = isinstance(definition, ast.AsyncFunctionDef)
            all_functions.append(Function(path, module, name, line, region, first, coroutine))
    return all_functions


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
            cause = self.rejection_cause(task, function, selection)
            if cause:
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
