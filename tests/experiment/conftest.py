from pathlib import Path

import pytest

from scripts.experiment.machine_files import read_yaml


@pytest.fixture
def experiment():
    """The default experiment, to be edited."""
    return read_yaml(Path("config/examples/from-scratch.yaml"))
