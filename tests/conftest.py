"""The order in which files of tests run."""

LONGEST = ["test_experiments.py", "test_cluster.py", "test_kills.py", "test_parallel.py", "test_stop.py"]


def pytest_collection_modifyitems(items):
    """The longest files first: last, one of them leaves one of two workers without work for ten minutes."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
