"""Load an experiment file as a checked record: types and bounds, then the checks across settings.

python -m scripts.experiment.load config/config.yaml      # prints "config/config.yaml: valid", or one error line

experiment = load_experiment(read_yaml(path), str(path))   # defaults filled in; attributes, not keys
"""

import sys
from pathlib import Path

from scripts.common.cli import run
from scripts.common.errors import UserError
from scripts.experiment.checks.datasets import check_datasets, check_tokens
from scripts.experiment.checks.gates import check_gates
from scripts.experiment.checks.stages import check_training
from scripts.experiment.checks.suites import check_suites, with_datasets
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.evaluation import Evaluation
from scripts.experiment.settings.experiment import Experiment
from scripts.experiment.settings.key_hints import key_hint
from scripts.experiment.settings.record import HINTS


def merged(below: dict, above: dict) -> dict:
    """`above` laid over `below`: mappings are merged key by key, `null` removes a key, anything else is replaced."""
    result = dict(below)
    for key, value in above.items():
        if value is None:
            result.pop(key, None)
        else:
            both = isinstance(value, dict) and isinstance(below.get(key), dict)
            result[key] = merged(below[key], value) if both else value
    return result


HINTS.append(key_hint)


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
    check_tokens(experiment, name)
    if experiment.training is None:  # there is no model to evaluate
        nothing = Evaluation().model_copy(update={"perplexity": None})
        return experiment.model_copy(update={"evaluation": nothing})
    check_training(experiment, name)
    experiment = experiment.model_copy(update={"evaluation": with_datasets(experiment)})
    check_suites(experiment, name)
    check_gates(experiment, name)
    return experiment


def experiment_of(profile: str, configfile: Path | None) -> tuple[Path, Experiment]:
    """(file, checked content) of an experiment: that of the file, or without one the profile's own."""
    path = configfile or Path(read_yaml(Path(profile) / "config.yaml").get("configfile", "config/config.yaml"))
    return path, load_experiment(read_yaml(path), str(path))


def trained_experiment_of(profile: str, configfile: Path | None) -> tuple[Path, Experiment]:
    """What `experiment_of` gives, for a command about stages.

    Raises:
        UserError: it is an experiment of data alone.
    """
    path, experiment = experiment_of(profile, configfile)
    if experiment.training is None:
        raise UserError(f"{path}: training: required here; without it only the data can be made (target `data`)")
    return path, experiment


def main() -> None:
    for path in sys.argv[1:]:
        load_experiment(read_yaml(Path(path)), path)
        print(f"{path}: valid")


if __name__ == "__main__":
    run(main)
