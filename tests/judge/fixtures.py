"""A sandbox, a judge and the published benchmarks, where there are such; for the tests of the judge and of suites."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.judge.judge import Judge
from scripts.judge.sandbox import bubblewrap as sandboxes
from scripts.judge.sandbox import probe
from scripts.judge.sandbox.program import Limits

ROOT = Path(__file__).parents[2]
UID = next(sandboxes.UIDS)
LIMITS = Limits(seconds=10, memory=512 << 20)


@pytest.fixture(scope="session")
def benchmarks():
    """The folder of the published benchmarks, `../shared/data/benchmarks` of the main checkout."""
    common = subprocess.run(
        ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    for checkout in (ROOT, Path(common).parent):
        folder = checkout.parent / "shared/data/benchmarks"
        if folder.is_dir():
            return folder
    return pytest.skip("the published benchmarks are not beside the checkout")


@pytest.fixture(scope="session")
def sandbox():
    if not shutil.which("bwrap"):
        pytest.skip("needs bubblewrap: apt-get install bubblewrap")
    try:
        return probe.sandbox()
    except UserError as error:
        if "no sandbox can be made here" in str(error):  # one that does not hold is a failure
            pytest.skip(str(error))
        raise


@pytest.fixture(scope="session")
def judge(sandbox):
    return Judge(sandbox, LIMITS)


@pytest.fixture
def unharmed():
    """Sees that no process stays behind."""
    before = processes()
    yield
    for _ in range(100):
        if not (left := processes() - before):
            break
        time.sleep(0.05)
    assert not left


def processes() -> set[str]:
    """Ids of this process's bubblewraps, and of the processes of its sandboxes' users."""
    ids = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(
                line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line
            )
        except OSError:
            continue
        descends = status["PPid"] == str(os.getpid()) and status["Name"] == "bwrap"
        own = int(status["Uid"].split()[0]) // 1000 == UID // 1000
        if descends or own:
            ids.add(folder.name)
    return ids
