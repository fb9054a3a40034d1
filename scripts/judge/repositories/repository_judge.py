"""Run a repository's own tests with one function body replaced; the new code cannot influence the verdict.

    judge = RepositoryJudge(probe.sandbox(), limits, repository, packages=None)
    judge.covered(functions, limits)          # which tests reach which functions
    judge.judge(task, "return a + b")         # Outcome("passed", "")

pytest runs in one sandbox with the whole repository, in which the function's body is a call into a second sandbox. That
one has the repository with the new body and without its tests; arguments, results and changes of arguments pass between
the two (calls.py). The verdict is that of the first one, which runs nothing of the new code.
"""

import json
import subprocess
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scripts.judge.problem import Verdict
from scripts.judge.repositories import (
    calls,
    candidate_process,
    object_graph,
    object_state,
    object_writer,
    policy,
    test_process,
)
from scripts.judge.repositories.problem import Lines, RepositoryProblem
from scripts.judge.repositories.repository import Repository
from scripts.judge.sandbox.bubblewrap import Sandbox
from scripts.judge.sandbox.packages import ONE_THREAD, PROJECT, bundle
from scripts.judge.sandbox.program import DETAIL, Limits, Program, exceeded, message, two_pipes, wait

CALL = 'return __import__("sys").modules["stagecraft_calls"].call(locals())'
REPLY = 64 << 20  # bytes of a verdict
ARCHIVES = {".whl", ".egg", ".zip", ".gz"}
COMPILED = {".py", ".pyc", ".so"}


COMMON = (object_state, policy, object_writer, object_graph, calls)


@cache
def guests() -> dict[str, bytes]:
    """Role → program of the process in the sandbox."""
    processes = {"judge": test_process, "candidate": candidate_process}
    return {role: bundle((*COMMON, process), f"{role}.py", "main()") for role, process in processes.items()}


@dataclass(frozen=True)
class Outcome(Verdict):
    """The verdict on a body.

    Attributes:
        outcome: one of OUTCOMES in scripts/evaluation/suites/repository_tests.py.
        names, kinds: what the candidate sent by name, and the kinds of objects that it changed.
    """

    detail: str = ""
    names: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


class Copies(NamedTuple):
    """What a folder of packages may hold of a repository's own source, by the paths in the sandbox."""

    folders: list[str]
    files: list[str]


def copies_of(tops: list[str], packages: Path) -> Copies:
    """The copies of some packages in a folder: installed, compiled, vendored by another package, or in an archive."""
    copies = Copies([], [])
    for path in sorted(packages.rglob("*")):
        place = f"/opt/packages/{path.relative_to(packages).as_posix()}"
        if place.startswith(tuple(f"{folder}/" for folder in copies.folders)):
            continue
        if path.is_dir():
            if path.name in tops:
                copies.folders.append(place)
        elif path.suffix in ARCHIVES or (path.suffix in COMPILED and path.name.partition(".")[0] in tops):
            copies.files.append(place)
    return copies


class RepositoryJudge:
    """Judges functions of one repository.

    Args:
        limits: of one run, and of each of its two processes.
        packages: folder of the packages that the repository needs; None if it needs none.
    """

    def __init__(self, sandbox: Sandbox, limits: Limits, repository: Repository, packages: Path | None):
        self.sandbox, self.repository, self.packages = sandbox, repository, packages
        self.copies = copies_of(repository.tops, packages) if packages else Copies([], [])
        # pytest and what it imports reserve much, and are trusted
        self.limits = replace(limits, address_space=False, output=REPLY)

    def folders(self, tests: bool) -> dict[str, str]:
        """The folders that a process sees, by their paths in the sandbox."""
        repository = self.repository
        folders = {"/repo": str(repository.checkout if tests else repository.packages)}
        if self.packages:
            folders["/opt/packages"] = str(self.packages)
        if tests:
            folders["/opt/judge"] = str(PROJECT)  # pytest and coverage
        return folders

    def start(
        self, role: str, config: dict, limits: Limits, files: dict[str, bytes], seed: int, pipes: tuple
    ) -> Program:
        folders = self.folders(tests=role == "judge")
        config = {
            "roots": [f"/repo/{root}".rstrip("/") for root in self.repository.roots],
            "folders": [path for path in folders if path != "/repo"],
            "plugins": [path for path in folders if path == "/opt/packages"],
            **config,
        }
        system = None
        if role == "candidate":
            system = self.sandbox.python_only(self.packages)
            if self.packages:
                folders |= dict.fromkeys(self.copies.folders, str(self.repository.empty))
                files = files | dict.fromkeys(self.copies.files, b"")
        return self.sandbox.start(
            [*self.sandbox.python, f"/tmp/{role}.pyc", json.dumps(config)],
            limits,
            folders=folders,
            files={f"/tmp/{role}.pyc": guests()[role], **files},
            environment={**ONE_THREAD, "PYTHONHASHSEED": str(seed), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=subprocess.PIPE if role == "judge" else subprocess.DEVNULL,
            descriptors=pipes,
            system=system,
        )

    def covered(self, functions: list[Lines], seconds: float) -> dict:
        """Run all tests once, with the repository as it is, under coverage.py.

        Returns:
            `passed` (tests), `ran`, `errors`, `reached` (of each function the tests that run a line of it); or `fault`.
        """
        config = {
            "mode": "cover",
            "tests": None,
            "files": ["--continue-on-collection-errors", *self.repository.tests],
            "packages": self.repository.tops,
            "seconds": self.limits.seconds,
            "functions": [[f"/repo/{lines.path}", lines.first, lines.last] for lines in functions],
        }
        program = self.start("judge", config, replace(self.limits, seconds=seconds), {}, 0, ())
        wait([program], lambda: not program.open)
        verdict = exceeded([program])
        if verdict:
            return {"fault": f"{verdict.outcome}: {verdict.detail}"}
        try:
            report = json.loads(program.stdout)
            if "unusable" in report:
                return {"fault": report["unusable"]}
            unsaid = not report.get("fault") and not report["ran"] and not report["errors"]
            return report | ({"errors": [message(program)]} if unsaid else {})
        except ValueError:
            return {"fault": f"no report: {message(program)}"}

    def judge(self, task: RepositoryProblem, body: str, *, record: bool = False, seed: int = 0) -> Outcome:
        """The outcome of the task's tests with this body.

        Args:
            record: whether the body is the repository's own; all that it sends by name is then accepted and recorded.
            seed: PYTHONHASHSEED, on which the order of sets depends.
        """
        allowed = {"names": None, "kinds": None} if record else {"names": task.names, "kinds": task.kinds}
        path = f"/repo/{task.path}"
        masked, written = (f"{task.before}{text}{task.after}".encode(errors="replace") for text in (CALL, body))
        with two_pipes() as pipes:
            of_judge = {
                **allowed,
                "mode": "judge",
                "seconds": 0,
                "tests": task.tests,
                "files": sorted({name.partition("::")[0] for name in task.tests}),
                "packages": self.repository.tops,
                "hidden": ["/opt/judge", *(f"/repo/{path}" for path in self.repository.hidden)],
                "reading": pipes.reply_reader,
                "writing": pipes.call_writer,
            }
            of_candidate = {
                "names": allowed["names"],
                "module": task.module,
                "function": task.function,
                "line": task.line,
                "reading": pipes.call_reader,
                "writing": pipes.reply_writer,
            }
            ends = (pipes.reply_reader, pipes.call_writer)
            judge = self.start("judge", of_judge, self.limits, {path: masked}, seed, ends)
            ends = (pipes.call_reader, pipes.reply_writer)
            candidate = self.start("candidate", of_candidate, self.limits, {path: written}, seed, ends)
        wait([judge, candidate], lambda: not judge.open)
        return self.outcome(task, judge, candidate)

    def outcome(self, task: RepositoryProblem, judge: Program, candidate: Program) -> Outcome:
        """The outcome, from the output of the two processes that have ended."""
        verdict = exceeded([judge, candidate])
        if verdict:
            kind = {"exception": "failed"}.get(verdict.outcome, verdict.outcome)
            return Outcome(kind, verdict.detail)
        try:
            result = json.loads(judge.stdout)
        except ValueError:
            return Outcome("environment fault", f"no report: {message(judge)}"[:DETAIL])
        if "unusable" in result:
            return Outcome("environment fault", result["unusable"])
        fault = result.get("fault", "")
        if fault.startswith(("compile error", "import error")):
            return Outcome("does not load", fault[:DETAIL])
        if fault == "gone":
            return Outcome("failed", f"the program ended: {message(candidate)}"[:DETAIL])
        detail = fault or "; ".join(result["errors"])
        if fault or not result["calls"] or set(result["passed"]) != set(task.tests):
            return Outcome("failed", detail[-DETAIL:] or "not all tests ran")
        return Outcome("passed", "", tuple(result["names"]), tuple(result["kinds"]))
