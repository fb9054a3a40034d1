"""Experiment and machine files checked against their schemas; what a schema cannot say is checked here too.

python -m scripts.common.config config/config.yaml
"""

import difflib
import sys
from pathlib import Path

import jsonschema
import yaml

from scripts.common.cli import UserError, run

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


def check_data(config: dict, name: str) -> None:
    """Whether the datasets' settings agree with each other and with the sources.

    Raises:
        UserError: they do not.
    """
    for dataset, settings in config["corpus"]["compose"].items():
        key = f"{name}: corpus.compose.{dataset}"
        if settings["kind"] in ("code", "instruct"):
            if "sources" not in config:
                raise UserError(f"{name}: sources: required, dataset {dataset} is made from repositories")
            continue
        if settings["validation"] + settings["test"] >= 1:
            raise UserError(f"{key}: validation and test leave nothing to train on")
        if ("path" in settings) == ("hub" in settings):
            raise UserError(f"{key}: give either `path` or `hub`")
        if ("hub" in settings) != ("revision" in settings):
            raise UserError(f"{key}.revision: required with `hub` (a commit of 40 hex digits), and only there")
        if "hub" in settings and "sha256" in settings:
            raise UserError(f"{key}.sha256: only with `path`; a hub dataset is pinned by its revision")
    kinds = {settings["kind"] for settings in config["corpus"]["compose"].values()}
    if "sources" in config and not kinds & {"code", "instruct"}:
        raise UserError(f"{name}: sources: no dataset is made from repositories; leave it out")
    if "sources" not in config and config["training"]["base"]["model"] == "scratch":
        raise UserError(
            f"{name}: training.base.model: `scratch` learns its tokenizer from repositories; give `sources` or a model"
        )


def check_adapters(config: dict, given: dict, name: str) -> None:
    """Whether the stages' `method`, `lora` and `quantize` agree, `given` being the experiment without defaults.

    Raises:
        UserError: they do not.
    """
    stages = config["training"]["train"]
    for stage, settings in stages.items():
        key, origin = f"{name}: training.train.{stage}", settings["from"]
        if settings["method"] == "full":
            if settings["quantize"] != "none":
                raise UserError(f"{key}.quantize: only with `method: lora`; quantized weights cannot be trained")
            if "lora" in given["training"]["train"][stage]:
                raise UserError(f"{key}.lora: only with `method: lora`")
        elif settings.get("trainable", "all") != "all":
            raise UserError(f"{key}.trainable: not with `method: lora`, where `lora.targets` says what is trained")
        adapter = origin != "base" and stages[origin]["method"] == "lora" and not stages[origin]["lora"]["merge"]
        if settings["quantize"] != "none" and adapter:
            raise UserError(f"{key}.quantize: {origin} saves an adapter alone; give it `lora: {{merge: true}}`")


def check_optimization(config: dict, given: dict, name: str) -> None:
    """Whether what the stages say of optimizer and schedule agrees, `given` being the experiment without defaults.

    Raises:
        UserError: it does not.
    """
    for stage, settings in config["training"]["train"].items():
        key, said = f"{name}: training.train.{stage}", given["training"]["train"][stage]
        muon, lora = settings["optimizer"] == "muon", settings["method"] == "lora"
        stable = settings["scheduler"] == "warmup-stable-decay"
        for setting, wrong, why in (
            ("warmup_share", "warmup_steps" in said, "give either this or `warmup_steps`"),
            ("decay_share", not stable, "only with `scheduler: warmup-stable-decay`"),
            ("muon_learning_rate", not muon, "only with `optimizer: muon`"),
            ("clip", muon, "not with `optimizer: muon`, whose step does not depend on the gradient's length"),
            ("optimizer", muon and lora, "muon trains whole matrices; with `method: lora` use adamw or adamw_8bit"),
            ("learning_rate", settings["learning_rate"] == "auto" and lora, "`auto` is for `method: full`"),
            ("global_batch", settings["global_batch"] == "auto" and lora, "`auto` is for `method: full`"),
        ):
            if setting in said and wrong:
                raise UserError(f"{key}.{setting}: {why}")
        if "steps" in settings:
            warmup = settings.get("warmup_share", settings["warmup_steps"] / settings["steps"])
            if warmup + settings["decay_share"] * stable > 1:
                raise UserError(f"{key}.scheduler: warm-up and decay together are longer than `steps`")


def check(config: dict, name: str = "config") -> dict:
    """A whole experiment, defaults filled in.

    Raises:
        UserError: it breaks the schema, or names a stage, dataset or model that is not there.
    """
    given = config
    config = validated(config, SCHEMA, name)
    datasets, stages, base = config["corpus"]["compose"], config["training"]["train"], config["training"]["base"]

    def known(key: str, value: str, names: list[str]) -> None:
        if value not in names:
            raise UserError(f"{name}: {key}: no {value!r} here; known: {', '.join(names)}")

    for stage, settings in stages.items():
        key = f"training.train.{stage}"
        known(f"{key}.from", settings["from"], ["base", *stages])
        known(f"{key}.data", settings["data"], list(datasets))
        if ("steps" in settings) == ("epochs" in settings):
            raise UserError(f"{name}: {key}: give either `steps` or `epochs`")
        without = not base["no_rope_layers"] and not Path(base["model"]).is_dir()
        if settings["trainable"] == "no_rope_layers" and without:
            raise UserError(f"{name}: {key}.trainable: no layers are chosen; list them in training.base.no_rope_layers")
        seen = [stage]
        while (origin := stages[seen[-1]]["from"]) != "base":
            known(f"training.train.{seen[-1]}.from", origin, ["base", *stages])
            if origin in seen:
                raise UserError(f"{name}: {key}.from: a cycle: {' from '.join([*seen, origin])}")
            seen.append(origin)
    check_data(config, name)
    check_optimization(config, given, name)
    check_adapters(config, given, name)
    if base["model"] == "scratch" and "shape" not in base:
        raise UserError(f"{name}: training.base.shape: required with model `scratch`")
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
    perplexity = config["evaluation"]["perplexity"]
    perplexity.setdefault("datasets", list(datasets))
    for dataset in perplexity["datasets"]:
        known("evaluation.perplexity.datasets", dataset, list(datasets))
    if perplexity["stride"] > perplexity["context"]:
        raise UserError(f"{name}: evaluation.perplexity.stride: {perplexity['stride']} exceeds `context`")
    for number, gate in enumerate(config["evaluation"]["gate"]["gates"]):
        key = f"evaluation.gate.gates.{number}"
        known(f"{key}.dataset", gate["dataset"], perplexity["datasets"])
        for side in ("model", "against"):
            if side in gate:
                known(f"{key}.{side}", gate[side], ["base", *stages])
    return config


def read_machine(path: Path) -> dict:
    """A machine file, checked, defaults filled in."""
    return validated(read_yaml(path), MACHINE_SCHEMA, str(path))


def read_monitoring(path: Path) -> dict:
    """A monitoring file, checked, defaults filled in."""
    return validated(read_yaml(path), MONITORING_SCHEMA, str(path))


def main() -> None:
    for path in sys.argv[1:]:
        check(read_yaml(Path(path)), path)
        print(f"{path}: fine")


if __name__ == "__main__":
    run(main)
