import pytest
import yaml

from scripts.experiment.load import SCHEMA, filled


@pytest.fixture(scope="session")
def rules():
    """corpus.filter's defaults, out of the schema."""
    schema = yaml.safe_load(SCHEMA.read_text())
    return filled({}, schema["properties"]["corpus"]["properties"]["filter"])
