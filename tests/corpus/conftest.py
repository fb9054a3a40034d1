import pytest

from scripts.experiment.settings.corpus import Filter


@pytest.fixture(scope="session")
def settings():
    """corpus.filter's defaults."""
    return Filter()
