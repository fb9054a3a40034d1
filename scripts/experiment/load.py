"""Experiment and machine files checked against their schemas; what a schema cannot say is checked here too.

python -m scripts.experiment.load config/config.yaml
"""

import difflib
import sys
from pathlib import Path

import jsonschema
import yaml

from scripts.common.cli import UserError, run
from scripts.experiment.checks import check_adapters, check_data, check_gates, check_optimization
from scripts.experiment.suites import check_suites, known

SCHEMA = Path("config/schema.yaml")
MACHINE_SCHEMA = Path("config/machines/schema.yaml")
MONITORING_SCHEMA = Path("config/monitoring/schema.yaml")


def read_yaml(path: Path) -> dict:
    """The mapping in a YAML file.

    Raises:
        UserError: the file is missing, is not YAML or holds no mapping.
    """
    try:
        value = yaml.safe_load(path.read_text())
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError(f"{path}: no such file") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: must hold a mapping of keys, not {type(value).__name__}")
    return value


def explain(error: jsonschema.ValidationError) -> str:
    """One line for a schema violation: key, what is wrong, what would be right."""
    if error.validator == "oneOf":
        forms = error.validator_value
        if "properties" not in forms[0]:
            return f"{key_of(error)}: give exactly one of {', '.join(form['required'][0] for form in forms)}"
        kinds = [form["properties"]["kind"]["const"] for form in forms]
        kind = error.instance.get("kind") if isinstance(error.instance, dict) else None
        if kind not in kinds:
            return f"{key_of(error)}.kind: must be one of {', '.join(kinds)}, not {kind!r}"
        # of the several forms, only what breaks the one that was meant
        return explain(next(e for e in error.context if e.schema_path[0] == kinds.index(kind)))
    key = key_of(error)
    if error.validator == "additionalProperties" and error.validator_value is False:
        known = sorted(error.schema["properties"])
        unknown = next(name for name in error.instance if name not in known)
        close = difflib.get_close_matches(str(unknown), known, 1)
        hint = f"did you mean `{close[0]}`?" if close else f"known keys: {', '.join(known)}"
        return f"{f'{key}.' if error.absolute_path else ''}{unknown}: unknown key; {hint}"
    return f"{key}: {' '.join(error.message.split())}"


def key_of(error: jsonschema.ValidationError) -> str:
    return ".".join(str(part) for part in error.absolute_path) or "top level"


def filled(value: dict, schema: dict) -> dict:
    """`value` with the schema's defaults in the places where it says nothing."""
    if "oneOf" in schema and "properties" not in schema:
        schema = next(form for form in schema["oneOf"] if form["properties"]["kind"]["const"] == value["kind"])
    result = dict(value)
    for name, sub in schema.get("properties", {}).items():
        if name not in result and "default" in sub:
            result[name] = sub["default"]
    for name, item in result.items():
        sub = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        if isinstance(sub, dict):
            if isinstance(item, dict):
                result[name] = filled(item, sub)
            elif isinstance(item, list) and isinstance(sub.get("items"), dict):
                result[name] = [filled(i, sub["items"]) if isinstance(i, dict) else i for i in item]
    return result


def validated(value: dict, schema_path: Path, name: str) -> dict:
    """`value` with defaults filled in.

    Raises:
        UserError: it breaks the schema; the line starts with `name` and the key.
    """
    schema = yaml.safe_load(schema_path.read_text())
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(value))
    if error:
        while error.parent:  # best_match descends into the forms of a oneOf; `explain` wants the whole
            error = error.parent
        raise UserError(f"{name}: {explain(error)}")
    return filled(value, schema)


def merged(below: dict, above: dict) -> dict:
    """`above` laid over `below`: mappings are merged key by key, `null` takes a key away, all else is replaced."""
    result = dict(below)
    for key, value in above.items():
        if value is None:
            result.pop(key, None)
        else:
            both = isinstance(value, dict) and isinstance(below.get(key), dict)
            result[key] = merged(below[key], value) if both else value
    return result


def extended(config: dict, name: str, seen: tuple[str, ...] = ()) -> dict:
    """An experiment laid over the one that its `extends` names, and that over its own.

    Raises:
        UserError: such a file is missing or no YAML, or extends itself.
    """
    origin = config.get("extends")
    if not isinstance(origin, str):  # the schema says what else is wrong
        return config
    if origin in seen:
        raise UserError(f"{name}: extends: {origin} extends itself")
    below = extended(read_yaml(Path(origin)), origin, (*seen, origin))
    return merged(below, {key: value for key, value in config.items() if key != "extends"})


def check(config: dict, name: str = "config") -> dict:
    """A whole experiment, laid over what it extends, defaults filled in.

    Raises:
        UserError: it breaks the schema, or names a file, stage, dataset or model that is not there.
    """
    given = extended(config, name)
    config = validated(given, SCHEMA, name)
    datasets, stages, base = config["corpus"]["compose"], config["training"]["train"], config["training"]["base"]

    for stage, settings in stages.items():
        key = f"{name}: training.train.{stage}"
        known(f"{key}.from", settings["from"], ["base", *stages])
        known(f"{key}.data", settings["data"], list(datasets))
        if ("steps" in settings) == ("epochs" in settings):
            raise UserError(f"{key}: give either `steps` or `epochs`")
        without = not base["no_rope_layers"] and not Path(base["model"]).is_dir()
        if settings["trainable"] == "no_rope_layers" and without:
            raise UserError(f"{key}.trainable: no layers are chosen; list them in training.base.no_rope_layers")
        seen = [stage]
        while (origin := stages[seen[-1]]["from"]) != "base":
            known(f"{name}: training.train.{seen[-1]}.from", origin, ["base", *stages])
            if origin in seen:
                raise UserError(f"{key}.from: a cycle: {' from '.join([*seen, origin])}")
            seen.append(origin)
    check_data(config, name)
    check_optimization(config, given, name)
    check_adapters(config, given, name)
    if base["model"] == "scratch" and "shape" not in base:
        raise UserError(f"{name}: training.base.shape: required with model `scratch`")
    if base["model"] == "scratch" and "vocab_size" in base["shape"]:
        raise UserError(f"{name}: training.base.shape.vocab_size: not with `scratch`; give tokens.tokenizer.vocab_size")
    if base["model"] != "scratch" and not Path(base["model"]).is_dir():
        if base["model"].startswith(("/", ".")) or base["model"].count("/") != 1:
            raise UserError(
                f"{name}: training.base.model: no folder {base['model']!r} here, and no hub name (ORGANISATION/NAME)"
            )
        if "revision" not in base:
            raise UserError(f"{name}: training.base.revision: required with a hub model (a commit of 40 hex digits)")
    shares = config["corpus"]["split"]
    if shares["validation"] + shares["test"] >= 1:
        raise UserError(f"{name}: corpus.split: validation and test leave nothing to train on")
    check_suites(config, name)
    check_gates(config, given, name)
    return config


def read_machine(path: Path) -> dict:
    """A machine file, checked, defaults filled in."""
    return validated(read_yaml(path), MACHINE_SCHEMA, str(path))


def read_monitoring(path: Path) -> dict:
    """A monitoring file, checked, defaults filled in."""
    return validated(read_yaml(path), MONITORING_SCHEMA, str(path))


def read_experiment(profile: str, configfile: Path | None) -> tuple[Path, dict]:
    """(path, checked content) of the experiment that `--profile` and `--configfile` mean to Snakemake."""
    path = configfile or Path(read_yaml(Path(profile) / "config.yaml").get("configfile", "config/config.yaml"))
    return path, check(read_yaml(path), str(path))


def main() -> None:
    for path in sys.argv[1:]:
        check(read_yaml(Path(path)), path)
        print(f"{path}: fine")


if __name__ == "__main__":
    run(main)
