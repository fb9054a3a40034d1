"""Load an experiment file as a checked record: types and bounds, then the checks across settings.

python -m scripts.experiment.load config/config.yaml      # prints "config/config.yaml: valid", or one error line

experiment = load_experiment(read_yaml(path), str(path))   # defaults filled in; attributes, not keys
"""

import argparse
import sys
from pathlib import Path

from scripts.common.cli import UserError, parser, run
from scripts.experiment.checks.datasets import check_datasets
from scripts.experiment.checks.gates import check_gates
from scripts.experiment.checks.stages import check_training
from scripts.experiment.checks.suites import check_suites, with_datasets
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.experiment import Experiment


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
    if not isinstance(origin, str):  # the record says what else is wrong
        return config
    if origin in seen:
        raise UserError(f"{name}: extends: {origin} extends itself")
    below = extended(read_yaml(Path(origin)), origin, (*seen, origin))
    return merged(below, {key: value for key, value in config.items() if key != "extends"})


def load_experiment(config: dict, name: str = "config") -> Experiment:
    """A whole experiment, laid over what it extends, defaults filled in.

    Args:
        config: the content of its file.
        name: the file, for errors.

    Raises:
        UserError: a setting is wrong, or names a file, stage, dataset or model that is not there.
    """
    experiment = Experiment.parse(extended(config, name), name)
    check_datasets(experiment, name)
    check_training(experiment, name)
    experiment = experiment.model_copy(update={"evaluation": with_datasets(experiment)})
    check_suites(experiment, name)
    check_gates(experiment, name)
    return experiment


def experiment_parser(doc: str) -> argparse.ArgumentParser:
    """The command line of a command about an experiment: the options for `experiment_of`."""
    arguments = parser(doc)
    arguments.add_argument("--profile", default="local", help="the profile of the run")
    arguments.add_argument("--configfile", type=Path, help="the experiment, if not the profile's own")
    return arguments


def experiment_of(profile: str, configfile: Path | None) -> tuple[Path, Experiment]:
    """(file, checked content) of the experiment that `--profile` and `--configfile` mean to Snakemake."""
    path = configfile or Path(read_yaml(Path(profile) / "config.yaml").get("configfile", "config/config.yaml"))
    return path, load_experiment(read_yaml(path), str(path))


def main() -> None:
    for path in sys.argv[1:]:
        load_experiment(read_yaml(Path(path)), path)
        print(f"{path}: valid")


if __name__ == "__main__":
    run(main)
