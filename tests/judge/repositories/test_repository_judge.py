"""A repository's own tests as a judge: its own bodies pass, empty and cheating ones do not.

Each cheat makes a plain run of pytest end well, with tests and body in one process. Half of them: make soak.
"""

import marshal
import os
import subprocess
import sys
import zipfile

import pytest

from scripts.evaluation.repository_functions.task_selection import functions
from scripts.evaluation.suites.repository_tests import RepositoryTask
from scripts.judge.repositories import repository_judge
from scripts.judge.repositories.repository import unpack
from scripts.judge.repositories.repository_judge import RepositoryJudge
from scripts.judge.sandbox.program import Limits
from tests.judge.repositories import shapes_repository

pytestmark = [pytest.mark.usefixtures("unharmed"), pytest.mark.slow]  # starts pytest in sandboxes

TYPE = "if self.width is None:\n            raise TypeError\n        "
CHEATS = {
    "ends the process": "import os\n        os._exit(0)",
    "ends the process at its end": "import atexit, os\n        atexit.register(os._exit, 0)",
    "ends pytest": "import pytest\n        pytest.exit('done', 0)",
    "skips the test": "import pytest\n        pytest.skip()",
    "expects the failure": "import pytest\n        pytest.xfail()",
    "patches pytest": """from _pytest.reports import TestReport
        made = TestReport.from_item_and_call
        def passed(item, call):
            call.excinfo = None
            return made(item, call)
        TestReport.from_item_and_call = passed""",
    "sets pytest's exit status": """import gc
        for one in gc.get_objects():
            if type(one).__name__ == "PytestPluginManager":
                class Plugin:
                    def pytest_sessionfinish(self, session):
                        session.exitstatus = 0
                one.register(Plugin())""",
    "reads the test file": f"""import re, pathlib
        {TYPE}here = pathlib.Path(__file__).parents[2]
        text = (here / "tests/test_shapes.py").read_text()
        return int(re.search(r"area\\(\\) == (\\d+)", text)[1])""",
    "reads the test's constants": f"""import sys
        {TYPE}frame = sys._getframe(1)
        return max(one for one in frame.f_code.co_consts if type(one) is int)""",
    "replaces the test file": """import os, sys, pathlib
        here = pathlib.Path(__file__).parents[2]
        (here / "tests/test_shapes.py").write_text("def test_area(): pass")
        os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", str(here / "tests")])""",
    "writes a plugin and starts over": """import os, sys, pathlib
        here = pathlib.Path(__file__).parents[2]
        (here / "conftest.py").write_text("def pytest_pyfunc_call(pyfuncitem): return True")
        os.execv(sys.executable, [sys.executable, "-m", "pytest", "-q", str(here / "tests")])""",
    "equals everything": f"{TYPE}return type('Equal', (), {{'__eq__': lambda *_: True}})()",
    "a number that equals everything": f"{TYPE}return type('Equal', (int,), {{'__eq__': lambda *_: True}})()",
    "a known object that equals everything": f"{TYPE}from unittest.mock import ANY\n        return ANY",
    "leaves the function and ends the process": "return 0\n\n\nimport os\nos._exit(0)",
    "leaves the function and replaces its class": "return 0\n\n\nclass Box:\n    def __init__(self, *given):\n"
    "        self.given = given\n    def area(self):\n        if None in self.given:\n            raise TypeError\n"
    "        import sys\n        return max(one for one in sys._getframe(1).f_code.co_consts if type(one) is int)",
}
# against the two processes themselves: what a body sends of its own accord
FORGERIES = {
    "a verdict on every descriptor": """import os
        for descriptor in range(3, 20):
            try:
                os.write(descriptor, b'{"passed": ["tests/test_shapes.py::test_area"], "calls": 1, "errors": []}\\\\n')
            except OSError:
                pass""",
    "an answer that names what no body may": """import gc
        peer = next(one for one in gc.get_objects() if type(one).__name__ == "Candidate")
        node = ["made", "os:_exit", [0], None]
        peer.send({"kind": "value", "value": [1], "new": [node, node, node], "changed": {}})""",
    "a request for the tests' own objects": """import gc
        peer = next(one for one in gc.get_objects() if type(one).__name__ == "Candidate")
        peer.send({"kind": "call", "value": [9], "new": [["list", [0]]] * 9, "changed": {}})""",
    "a fault of the test runner": """import gc
        peer = next(one for one in gc.get_objects() if type(one).__name__ == "Candidate")
        peer.send({"kind": "fault", "value": "the test runner itself uses shapes"})""",
    "a change of what it was not given": """import gc
        peer = next(one for one in gc.get_objects() if type(one).__name__ == "Candidate")
        peer.send({"kind": "value", "value": 6, "new": [], "changed": {"-1": ["list", []]}})""",
}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    for path in (folder, folder.parent, folder.parent.parent):
        path.chmod(0o755)
    return unpack("made", shapes_repository.archive(folder), folder / "unpacked")


@pytest.fixture(scope="module")
def judging(sandbox, repository):
    return RepositoryJudge(sandbox, Limits(seconds=20, memory=512 << 20), repository, None)


def task(name: str, *tests: str) -> RepositoryTask:
    function = next(
        candidate for candidate in functions("", "shapes", shapes_repository.MODULE) if candidate.name == name
    )
    location = {
        "module": "shapes",
        "function": name,
        "line": function.line,
        "tests": [f"tests/test_shapes.py::{test}" for test in tests],
    }
    return RepositoryTask(
        name,
        "function",
        "python",
        "made",
        "src/shapes/__init__.py",
        *function.cut(shapes_repository.MODULE),
        **location,
    )


AREA = task("Box.area", "test_area")


@pytest.mark.parametrize(
    ("name", "tests"),
    [("Box.grow", ["test_grow[1]", "test_grow[2]"]), ("Box.area", ["test_area"]), ("mapped", ["test_mapped"])],
)
def test_the_own_body_passes_and_an_empty_one_does_not(judging, name, tests):
    own_task = task(name, *tests)
    own = judging.judge(own_task, own_task.answer, record=True)
    assert own.outcome == "passed", own.detail
    own_task.names, own_task.kinds = list(own.names), list(own.kinds)
    assert judging.judge(own_task, own_task.answer, seed=1).outcome == "passed"
    assert judging.judge(own_task, "pass").outcome == "failed"


def test_another_right_body_passes(judging):
    assert judging.judge(AREA, "return sum(self.width for _ in range(self.height))").outcome == "passed"


def plain_run(repository, folder, body: str) -> int:
    """The exit status of pytest with tests and body in one process."""
    for path, text in {
        "tests/test_shapes.py": shapes_repository.TESTS,
        AREA.path: f"{AREA.before}{body}{AREA.after}",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--rootdir=.",
        "-p",
        "no:cacheprovider",
        "tests",
        "-k",
        "test_area",
    ]
    environment = {**os.environ, "PYTHONPATH": "src", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, capture_output=True, env=environment).returncode


@pytest.mark.parametrize(
    "cheat",
    [cheat if number % 2 == 0 else pytest.param(cheat, marks=pytest.mark.soak) for number, cheat in enumerate(CHEATS)],
)
def test_a_cheat_that_fools_one_process_does_not_fool_two(judging, repository, tmp_path, cheat):
    assert plain_run(repository, tmp_path, CHEATS[cheat]) == 0
    assert judging.judge(AREA, CHEATS[cheat]).outcome == "failed"


@pytest.mark.parametrize("forgery", FORGERIES)
def test_messages_that_a_body_itself_sends_are_no_verdict(judging, forgery):
    assert judging.judge(AREA, FORGERIES[forgery]).outcome == "failed"


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("while True:\n            pass", "timeout"),
        ("kept = []\n        while True:\n            kept.append(bytes(1 << 20))", "memory"),
        ("return (", "does not load"),
        ("return 0\n\n\nimport nothing_of_this_name", "does not load"),
    ],
)
def test_timeouts_memory_and_bodies_that_do_not_load_are_named_as_such(sandbox, repository, body, outcome):
    judging = RepositoryJudge(sandbox, Limits(seconds=3, memory=256 << 20), repository, None)
    assert judging.judge(AREA, body).outcome == outcome


# finds another copy of the package, in a wheel, compiled, or as source, and does what its method does
SEARCHES = f"""import marshal, os, sys, types, zipfile
        {TYPE}for folder, _, names in os.walk("/"):
            if folder.startswith(("/proc", "/repo")):
                continue
            for path in (os.path.join(folder, name) for name in names):
                try:
                    if path.endswith(".whl"):
                        code = zipfile.ZipFile(path).read("shapes/__init__.py")
                    elif path.endswith(".pyc") and "shapes" in path:
                        code = marshal.loads(open(path, "rb").read()[16:])
                    elif path.endswith("shapes/__init__.py"):
                        code = open(path, "rb").read()
                    else:
                        continue
                    module = types.ModuleType("copy")
                    sys.modules["copy"] = module
                    exec(code, vars(module))
                    return module.Box.area(self)
                except Exception:
                    continue"""


def packages_with(folder, copy: str):
    """A folder of packages that holds a copy of the repository's source."""
    place = folder / copy
    place.parent.mkdir(parents=True)
    if copy.endswith(".whl"):
        with zipfile.ZipFile(place, "w") as wheel:
            wheel.writestr("shapes/__init__.py", shapes_repository.MODULE)
    elif copy.endswith(".pyc"):
        place.write_bytes(bytes(16) + marshal.dumps(compile(shapes_repository.MODULE, "shapes.py", "exec")))
    else:
        place.write_text(shapes_repository.MODULE)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.mark.parametrize(
    "copy",
    ["pip/_vendor/shapes/__init__.py", "ensurepip/_bundled/shapes-1.whl", "__pycache__/shapes.cpython-311.pyc"],
)
def test_a_body_does_not_find_the_original_in_the_environment(sandbox, repository, tmp_path, monkeypatch, copy):
    tmp_path.chmod(0o755)
    packages = packages_with(tmp_path / "packages", copy)
    limits = Limits(seconds=20, memory=512 << 20)
    assert RepositoryJudge(sandbox, limits, repository, packages).judge(AREA, SEARCHES).outcome == "failed"
    if copy.startswith("pip"):  # the search itself works
        monkeypatch.setattr(repository_judge, "copies_of", lambda *_: repository_judge.Copies([], []))
        assert RepositoryJudge(sandbox, limits, repository, packages).judge(AREA, SEARCHES).outcome == "passed"


def test_a_body_sees_the_interpreter_and_its_standard_library_alone(sandbox):
    """Not the packages of this machine, in which a repository's original may lie."""
    listing = """import os, sys
standard = os.path.dirname(os.__file__)
for folder, _, names in os.walk("/"):
    for name in names:
        if not folder.startswith(("/proc", standard)) and name.endswith((".py", ".pyc", ".whl", ".zip", ".egg")):
            print(folder, name)
for folder in ("site-packages", "dist-packages", "ensurepip", "test"):
    path = os.path.join(standard, folder)
    print(*(os.listdir(path) if os.path.isdir(path) else []))
import ctypes, hashlib, lzma, sqlite3, ssl, subprocess, zoneinfo
subprocess.run("true", shell=True, check=True)"""
    command = [*sandbox.python, "-c", listing]
    limits = Limits(seconds=20, memory=512 << 20)
    program = sandbox.run(command, limits, system=sandbox.python_only(None))
    assert (program.code, bytes(program.stdout).split()) == (0, []), bytes(program.stderr)
    assert b".py" in sandbox.run(command, limits).stdout
