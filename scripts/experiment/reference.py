"""docs/configuration.md, made from the schemas; with --check it only says whether the page is up to date.

python -m scripts.experiment.reference [--check]
"""

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from scripts.common.cli import UserError, parser, run
from scripts.experiment.load import MACHINE_SCHEMA, MONITORING_SCHEMA, SCHEMA

PAGE = Path("docs/configuration.md")
HEAD = """# Configuration reference

Made from the schemas in `config/`, `config/machines/` and `config/monitoring/` by `make docs`; a test compares them.
`{name}` stands for a name of your own. An unknown key, a wrong type or a name that is not there ends the workflow with
one line before any job starts.

## The experiment: what

A profile names its default experiment; `--configfile config/another.yaml` picks another. A setting that is not given
has its default.
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


def kind(schema: dict) -> str:
    """The type of a setting in words."""
    if "enum" in schema:
        return " or ".join(f"`{value if isinstance(value, str) else json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if isinstance(schema["type"], list):
        return " or ".join(schema["type"])
    if schema["type"] == "array":
        items = schema["items"]["type"]
        return "list of " + " or ".join(f"{name}s" for name in ([items] if isinstance(items, str) else items))
    return {"object": "mapping"}.get(schema["type"], schema["type"])


def rows(schema: dict, path: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(key, type, default, description) of every setting below `schema`."""
    for form in schema.get("oneOf", []) if "properties" not in schema else []:
        yield from rows(form, path)
    required = schema.get("required", [])
    for name, sub in schema.get("properties", {}).items():
        key = f"{path}.{name}" if path else name
        inner = sub.get("properties") or isinstance(sub.get("additionalProperties"), dict)
        default = "" if sub.get("default") in (None, {}) else f"`{json.dumps(sub['default'])}`"
        default = "required" if name in required else default
        if sub.get("description") or not inner:
            yield key, kind(sub), default, sub.get("description", "")
        yield from rows(sub, key)
        if isinstance(sub.get("items"), dict) and "properties" in sub["items"]:
            yield from rows(sub["items"], f"{key}[]")
    if isinstance(schema.get("additionalProperties"), dict) and "properties" not in schema:
        yield from rows(schema["additionalProperties"], f"{path}.{{name}}")


def table(schema: dict) -> str:
    """A Markdown table of every setting."""
    lines = ["| key | type | default | meaning |", "|---|---|---|---|"]
    lines += [f"| `{key}` | {what} | {default} | {says} |" for key, what, default, says in rows(schema)]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    files = (SCHEMA, MACHINE_SCHEMA, MONITORING_SCHEMA)
    experiment, machine, monitoring = (yaml.safe_load(path.read_text()) for path in files)
    parts = ((HEAD, experiment), (MACHINE_HEAD, machine), (MONITORING_HEAD, monitoring))
    return "".join(f"{head}\n{table(schema)}" for head, schema in parts)


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
