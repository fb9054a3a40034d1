"""The order in which files of tests run."""


def pytest_collection_modifyitems(items):
    """The longest file first: last, it would leave one of two workers alone with it for ten minutes."""
    items.sort(key=lambda item: item.path.name != "test_experiments.py")
