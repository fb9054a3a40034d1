"""Runs inside a sandbox: pytest, with the masked function's calls sent to the candidate's process.

    python -I -S tests.pyc '{"mode": "judge", "reading": 3, "writing": 4, "tests": ["tests/test_a.py::test_b"], ...}'

Modes: `judge` runs the named tests, `cover` runs all and reports which tests reach which functions. The report goes to
standard output as JSON; the output of the tests does not.
"""

import importlib.metadata
import json
import os
import signal
import sys
import types

from scripts.judge.repositories.calls import Fault, RpcPeer
from scripts.judge.repositories.object_state import base_of
from scripts.judge.repositories.policy import SHOWN

OPTIONS = [
    *("-q", "--rootdir=/repo", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-o", "addopts=", "-o", "required_plugins=", "-o", "xfail_strict=false"),
]
# plugins that change which tests run, or where
LEFT_OUT = {"xdist", "xdist.looponfail", "pytest_cov", "randomly", "random_order", "reverse"}
CALLS = "stagecraft_calls"  # the module that a masked function calls


class Judging(RpcPeer):
    """The end of the pipes beside the tests.

    Args:
        config: `names` and `kinds` hold what the candidate may send by name, and the kinds of objects that it may
            change; None takes everything and notes it.
    """

    def __init__(self, config: dict):
        super().__init__(config["reading"], config["writing"])
        self.names, self.kinds = config["names"], config["kinds"]
        self.hidden = tuple(config["hidden"])  # beginnings of paths that the candidate does not see
        self.noted = {"names": set(), "kinds": set()}
        self.sent = set()  # names of the repository's own

    def sends(self, name: str) -> bool:
        path = getattr(sys.modules.get(name.partition(":")[0]), "__file__", None)
        if path and path.startswith(self.hidden):
            return False
        if path and path.startswith("/repo/"):
            self.sent.add(name)
        return True

    def reads(self, name: str) -> bool:
        self.noted["names"].add(name)
        return self.names is None or name in self.names or name in self.sent or builtin_exception(name)

    def shows(self, value: object, name: str) -> bool:
        # of a function what decorators copy; of an object of the tests' own classes what is public
        if not isinstance(name, str) or callable(value):
            return name in SHOWN
        return not name.startswith("_") and base_of(type(value)) is not None

    def changes(self, kind: str) -> bool:
        self.noted["kinds"].add(kind)
        return self.kinds is None or kind in self.kinds

    def call(self, values: dict) -> object:
        return self.request("run", values)


def builtin_exception(name: str) -> bool:
    module, _, attribute = name.partition(":")
    exception = getattr(__import__("builtins"), attribute, None) if module == "builtins" else None
    return isinstance(exception, type) and issubclass(exception, Exception)


class Reporter:
    """A pytest plugin that notes what became of each test, and by `cover` what each reaches."""

    def __init__(self, selected: list[str] | None, coverage=None, seconds: float = 0):
        self.seconds = seconds
        self.selected, self.coverage = selected if selected is None else set(selected), coverage
        self.phases, self.errors = {}, []

    def pytest_collection_modifyitems(self, items: list) -> None:
        if self.selected is not None:
            items[:] = [item for item in items if item.nodeid in self.selected]

    def pytest_collectreport(self, report) -> None:
        if report.failed:
            self.errors.append(f"{report.nodeid}: {report.longreprtext[-300:]}")

    def pytest_runtest_setup(self, item) -> None:
        if self.coverage:
            self.coverage.switch_context("")

    def pytest_runtest_call(self, item) -> None:
        if self.coverage:
            signal.setitimer(signal.ITIMER_REAL, self.seconds)  # one test that waits for ever is not all of them
            self.coverage.switch_context(item.nodeid)

    def pytest_runtest_teardown(self, item) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)

    def pytest_runtest_logreport(self, report) -> None:
        expected = hasattr(report, "wasxfail")
        if expected:
            self.phases.setdefault(report.nodeid, {})[report.when] = "expected failure"
        else:
            self.phases.setdefault(report.nodeid, {})[report.when] = report.outcome
        if report.failed:
            self.errors.append(f"{report.nodeid}: {report.longreprtext[-700:]}")
        if report.when == "teardown" and self.coverage:
            self.coverage.switch_context("")

    def passed(self) -> list[str]:
        """The tests that passed in all three phases."""
        all_passed = {"setup": "passed", "call": "passed", "teardown": "passed"}
        return sorted(name for name, phases in self.phases.items() if phases == all_passed)


def too_long(*_) -> None:
    raise TimeoutError("the test takes too long")


def reached(coverage, functions: list) -> list[list[str]]:
    """The tests that ran a line of each function; functions are (path, first line, last line)."""
    data, lines, tests_by_function = coverage.get_data(), {}, []
    for path, first, last in functions:
        contexts = lines.setdefault(path, data.contexts_by_lineno(path))
        test_names = set()
        for line in range(first, last + 1):
            test_names.update(contexts.get(line, ()))
        tests_by_function.append(sorted(test_names - {""}))
    return tests_by_function


def load_plugins(folders: list[str], packages: set[str]) -> list[str]:
    """Load the pytest plugins in some folders, before the source can be imported; returns pytest's options for them."""
    options = []
    for distribution in importlib.metadata.distributions(path=folders):
        for entry in distribution.entry_points:
            if entry.group == "pytest11" and entry.name not in LEFT_OUT:
                try:
                    entry.load()
                except ImportError as error:
                    if str(error.name).partition(".")[0] in packages:
                        sys.modules.setdefault(error.name, None)  # it wants the source, which would then judge itself
                    continue
                options += ["-p", entry.name]
    return options


def pytest_run(config: dict, judging: Judging | None) -> dict:
    import pytest

    options = load_plugins(config["plugins"], {*config["packages"]})
    used = sorted({*config["packages"]} & {name.partition(".")[0] for name in sys.modules})
    if used:
        return {"unusable": f"the test runner itself uses {', '.join(used)}"}
    coverage = None
    if config["mode"] == "cover":
        import coverage as measuring

        coverage = measuring.Coverage(data_file=None, config_file=False, include=["/repo/*"], messages=False)
        coverage.start()
    sys.path[:0] = config["roots"]
    reporter = Reporter(config["tests"], coverage, config["seconds"])
    signal.signal(signal.SIGALRM, too_long)
    first = ["-x"] if config["mode"] == "judge" else []
    code = pytest.main([*OPTIONS, *options, *first, *config["files"]], plugins=[reporter])
    result = {"passed": reporter.passed(), "ran": sorted(reporter.phases), "errors": reporter.errors[:20]}
    if coverage:
        coverage.stop()
        result["reached"] = reached(coverage, config["functions"])
    if judging:
        result |= {"fault": judging.fault, "calls": judging.calls}
        result |= {kind: sorted(noted) for kind, noted in judging.noted.items()}
    return {**result, "code": int(code)}


def main() -> None:
    config = json.loads(sys.argv[1])
    sys.argv = ["pytest"]
    with os.fdopen(os.dup(1), "w") as verdict:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.path += config["folders"]
        os.chdir("/repo")
        judging = Judging(config) if config["mode"] == "judge" else None
        sys.modules[CALLS] = module = types.ModuleType(CALLS)
        module.call = judging and judging.call
        try:
            result = pytest_run(config, judging)
        except Fault as error:
            result = {"fault": str(error), "passed": []}
        verdict.write(json.dumps(result))
    os._exit(0)


if __name__ == "__main__":
    main()
