"""What all tests share: how threads wait, garbage collection, the order of files, `--quick` and `--rest`, limits.

A test that takes 10 minutes fails with the stacks of its threads (pytest-timeout, pyproject.toml); the whole run ends
after `--minutes`, with the names of the tests that were running. What tests leave running is killed (leftovers.py).
"""

import gc
import os
import re
import shutil
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests import leftovers, matrix, quick

# as scripts/hosts/hardware.py has it, for what tests run in this process; libgomp reads it when torch loads it
os.environ.setdefault("GOMP_SPINCOUNT", "0")
for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # of `make test`: a test's own make would print more, as a part of it
    os.environ.pop(name, None)
os.environ["HF_HUB_OFFLINE"] = "1"  # as a stage has it; a program that is started with another value is not a fork
# clones of this repository are read by hundreds of processes, which must not compile every module anew
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What a shell starts with `&` ignores SIGINT, and so does all that it starts; some tests interrupt what they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# In memory, where there is room and programs and devices are allowed, as containers often do not: clones of a thousand
# small files are copied ten times as fast there as on a disk.
MEMORY, REFUSED = Path("/dev/shm"), os.ST_NOEXEC | os.ST_NODEV
if MEMORY.is_dir() and not os.statvfs(MEMORY).f_flag & REFUSED and shutil.disk_usage(MEMORY).free > 8 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
gc.disable()  # until all tests are imported; see scripts/__init__.py

SLOW = re.compile(rb"\.slow|model_folder")  # what a file with tests that are not quick has in it
LONGEST = ["test_default.py", "test_cluster.py", "test_experiments.py", "test_lost_processes.py", "test_kills.py"]
LONGEST += [
    "test_jobs.py",
    "test_many_sources.py",
    "test_provenance.py",
    "test_parallel.py",
]
LONGEST += [
    "test_start.py",
    "test_kinds.py",
    "test_seeds_and_documents.py",
    "test_fingerprint.py",
    "test_judge.py",
    "test_fetch.py",
    "test_fetch_sdist.py",
    "test_page.py",
    "test_gpus.py",
]  # of the quick ones


def pytest_addoption(parser):
    group = parser.getgroup("stagecraft").addoption
    group("--quick", action="store_true", help="only tests that need neither torch nor a DAG")
    group("--rest", action="store_true", help="only those that --quick leaves out")
    group("--matrix", type=Path, help="file for the table of faults (tests/matrix.py)")
    group("--minutes", type=float, help="end the whole run after this time, naming the tests that were running")


def pytest_configure(config):
    leftovers.watch()
    if config.option.quick:
        quick.block_torch()
    if config.option.rest and not hasattr(config, "workerinput") and not config.option.collectonly:
        from tests import forked  # its processes have the mark of what may be left running

        os.environ[forked.SHARED] = str(forked.folder())  # its imports take 20 s: one process for all workers
    if config.option.matrix and not hasattr(config, "workerinput"):
        config.pluginmanager.register(matrix.Matrix(config.option.matrix))
    if config.option.minutes and not hasattr(config, "workerinput"):
        config.pluginmanager.register(WholeRunLimit(config.option.minutes))


def pytest_runtest_setup(item):
    row = matrix.described(item)
    if row:
        item.user_properties.append((matrix.PROPERTY, row))


class WholeRunLimit:
    """Ends pytest, and with it all that it started, if the run takes longer than its limit."""

    def __init__(self, minutes: float):
        self.minutes = minutes
        self.running = set()  # names of tests; with pytest-xdist those of all workers
        self.timer = threading.Timer(60 * minutes, self.end)
        self.timer.daemon = True

    def pytest_sessionstart(self):
        self.timer.start()

    def pytest_runtest_logstart(self, nodeid):
        self.running.add(nodeid)

    def pytest_runtest_logfinish(self, nodeid):
        self.running.discard(nodeid)

    def pytest_sessionfinish(self):
        self.timer.cancel()

    def end(self):
        lines = [f"error: the tests took longer than {self.minutes:g} minutes; these were running:", *self.running]
        os.write(sys.__stderr__.fileno(), "\n".join(["", *lines, ""]).encode())
        os._exit(1)  # leftovers.py ends the workers


def pytest_ignore_collect(collection_path, config):
    """Files without a wanted test are not even imported; each may hold such a test if it matches SLOW."""
    if collection_path.suffix != ".py":
        return None
    if config.option.quick and not quick.is_quick(collection_path):
        return True
    if config.option.rest and quick.is_quick(collection_path) and not SLOW.search(collection_path.read_bytes()):
        return True
    return None


def pytest_make_parametrize_id(val):
    """Of a long text a test's name holds the beginning."""
    return f"{ascii(val)[:60]}..." if isinstance(val, str | bytes) and len(val) > 60 else None


def is_quick(item) -> bool:
    """Whether `make quick` runs a test."""
    scores = "model_folder" in item.fixturenames  # a suite imports torch only where it scores a model
    return quick.is_quick(item.path) and not item.get_closest_marker("slow") and not scores


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """The longest files first: last, one of them leaves one of two workers without work for ten minutes."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    if config.option.quick or config.option.rest:
        others = [item for item in items if is_quick(item) == config.option.rest]
        items[:] = [item for item in items if is_quick(item) == config.option.quick]
        config.hook.pytest_deselected(items=others)


def pytest_collection_finish(session):
    if session.items and all(map(is_quick, session.items)):
        quick.block_torch()  # so that to run one file shows what `make quick` would
    gc.freeze()
    gc.enable()
