import pytest

from scripts.experiment.settings.corpus import Filter
from scripts.experiment.settings.record import to_dict


@pytest.fixture(scope="session")
def rules():
    """corpus.filter's defaults."""
    return to_dict(Filter())
