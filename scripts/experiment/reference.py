"""Write docs/configuration.md from the settings records; with --check only say whether the page is up to date.

python -m scripts.experiment.reference [--check]
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_origin

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from scripts.common.cli import UserError, parser, run
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.machine import Machine
from scripts.experiment.settings.monitoring import Monitoring
from scripts.experiment.settings.record import Record

PAGE = Path("docs/configuration.md")
HEAD = """# Configuration reference

Made from the records in `scripts/experiment/settings/` by `make docs`; a test compares them. `{name}` is a name of your
own. An unknown key, a wrong type or a missing file ends the workflow with one line before any job starts. Numbers may
be written as `1e-3`, `0.001` or `1.0e-3`.

## The experiment: what

A profile names its default experiment; `--configfile config/experiments/mine.yaml` picks another. A setting that is not
given has its default.
"""
MACHINE_HEAD = """
## The machine: where

`config/machines/{name}.yaml`, named by the profile's default resource `machine`. No setting here changes a result's
fingerprint: moving to another machine reruns nothing that is finished.
"""
MONITORING_HEAD = """
## The monitoring: how a stage is watched

`config/monitoring/{name}.yaml`, named by the experiment's `monitoring`. No setting here reruns anything.
"""


def type_of(field: FieldInfo) -> str:
    """The type of a setting in words."""
    return in_words(TypeAdapter(field.rebuild_annotation()).json_schema())


def in_words(schema: dict) -> str:
    """The type that a JSON schema without references allows."""
    if "anyOf" in schema:
        words = [in_words(form) for form in schema["anyOf"] if form != {"type": "null"}]
        return " or ".join(word for word in words if word != "whole number" or "number" not in words)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(f"`{value if isinstance(value, str) else json.dumps(value)}`" for value in values)
    if schema["type"] == "array":
        return f"list of {in_words(schema['items']).replace(' or ', 's or ')}s".replace("texts", "text")
    names = {"object": "mapping", "integer": "whole number", "string": "text", "boolean": "true or false"}
    return names.get(schema["type"], schema["type"])


def records_in(annotation: object) -> list[type[Record]]:
    """The records that an annotation names, at any depth, in order."""
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return [annotation]
    return [record for argument in get_args(annotation) for record in records_in(argument)]


def default_of(field: FieldInfo) -> str:
    """The default of a setting that is no record, as it would be written in the file."""
    if field.is_required():
        return "required"
    return "" if field.default in (None, {}) else f"`{json.dumps(field.default)}`"


def rows(record: type[Record], path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(key, type, default, description) of every setting below `record`."""
    for name, field in record.model_fields.items():
        key, inner, form = f"{path}{field.alias or name}", records_in(field.annotation), get_origin(field.annotation)
        if not inner:
            yield key, type_of(field), default_of(field), field.description or ""
            continue
        description = field.description or " ".join((inner[0].__doc__ or "").split())
        if description:
            kind = "list of mappings" if form is list else "mapping"
            yield key, kind, "required" if field.is_required() else "", description
        for record_type in inner:
            yield from rows(record_type, key + {dict: ".{name}.", list: "[]."}.get(form, "."))


def table(record: type[Record]) -> str:
    """A Markdown table of every setting."""
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{key}` | {kind} | {default} | {meaning} |" for key, kind, default, meaning in rows(record)]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    parts = ((HEAD, Experiment), (MACHINE_HEAD, Machine), (MONITORING_HEAD, Monitoring))
    return "".join(f"{head}\n{table(record)}" for head, record in parts)


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--check", action="store_true")
    if arguments.parse_args().check:
        if PAGE.read_text() != page():
            raise UserError(f"{PAGE}: out of date; run `make docs`")
    else:
        PAGE.write_text(page())


if __name__ == "__main__":
    run(main)
