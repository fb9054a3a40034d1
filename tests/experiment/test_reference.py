"""config/README.md and the schemas say what the settings records say, and every file that ships fits its schema."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from scripts.experiment.reference import SCHEMAS, files

ROOT = Path(__file__).parents[2]
YAML = [path for path in sorted((ROOT / "config").rglob("*.yaml")) if path.parent.name != "cases"]


def schema_of(path: Path) -> dict:
    """The schema that a YAML file names in its first line."""
    first = path.read_text().partition("\n")[0]
    assert first.startswith("# yaml-language-server: $schema="), path
    return json.loads((path.parent / first.partition("=")[2]).read_text())


def test_the_files_are_those_generated_from_the_settings():
    assert {path: path.read_text() for path in files()} == files(), "run `make docs`"


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_that_ships_fits_the_schema_that_it_names_and_a_misspelt_key_does_not(path):
    content = yaml.safe_load(path.read_text())
    jsonschema.validate(content, schema_of(path))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(content | {"extend": "x"}, schema_of(path))


def test_a_schema_describes_each_setting():
    experiment = json.loads(Path("config/schema.json").read_text())
    assert set(experiment["properties"]) == {
        field.alias or name for name, field in SCHEMAS[Path("config/schema.json")].model_fields.items()
    }
    assert experiment["$defs"]["Stage"]["properties"]["learning_rate"]["description"].startswith("Peak learning rate.")
