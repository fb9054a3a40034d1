"""What all tests share: how threads wait, garbage collection, the order of files, `--quick`."""

import gc
import os

import pytest

from tests import quick

# as scripts/hosts/openmp.py has it, for what tests run in this process; libgomp reads it when torch loads it
os.environ.setdefault("GOMP_SPINCOUNT", "0")
for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS"):  # of `make test`: a test's own make would print more, as a part of it
    os.environ.pop(name, None)
gc.disable()  # until all tests are imported; see scripts/__init__.py

LONGEST = ["test_experiments.py", "test_cluster.py", "test_kills.py", "test_parallel.py", "test_interruption.py"]
LONGEST += ["test_pull.py", "test_compiled_programs.py", "test_page.py", "test_judge.py"]  # of the quick ones


def pytest_addoption(parser):
    parser.addoption("--quick", action="store_true", help="only tests that need neither torch nor a DAG")


def pytest_configure(config):
    if config.option.quick:
        quick.block_torch()


def pytest_ignore_collect(collection_path, config):
    if config.option.quick and collection_path.suffix == ".py" and not quick.is_quick(collection_path):
        return True
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """The longest files first: last, one of them leaves one of two workers without work for ten minutes."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    if config.option.quick:
        slow = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if item not in slow]
        config.hook.pytest_deselected(items=slow)


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
