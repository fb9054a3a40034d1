import pytest

from scripts.experiment.settings.filter import Filter


@pytest.fixture(scope="session")
def settings():
    """corpus.filter's defaults."""
    return Filter()
