"""What all tests share: how threads wait, garbage collection, the order of files."""

import gc
import os

# as scripts/hosts/openmp.py has it, for what tests run in this process; libgomp reads it when torch loads it
os.environ.setdefault("GOMP_SPINCOUNT", "0")
gc.disable()  # until all tests are imported; see scripts/__init__.py

LONGEST = ["test_experiments.py", "test_cluster.py", "test_kills.py", "test_parallel.py", "test_interruption.py"]


def pytest_collection_modifyitems(items):
    """The longest files first: last, one of them leaves one of two workers without work for ten minutes."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


def pytest_collection_finish():
    gc.freeze()
    gc.enable()
