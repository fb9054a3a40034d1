import gc
from pathlib import Path

import pytest

from scripts.experiment.machine_files import read_yaml


@pytest.fixture(autouse=True)
def no_search_for_garbage():
    """Fingerprints keep a million nodes of syntax trees; to look through them each time takes half of the time."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def experiment():
    """The default experiment, to be edited."""
    return read_yaml(Path("config/examples/from-scratch.yaml"))
