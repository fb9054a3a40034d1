"""Load machine and monitoring files as checked records: where a stage runs and how it is watched.

    machine = load_machine(Path("config/machines/a40.yaml"))    # machine.gpus == 2

Apart from load.py, so that the code of a training stage does not depend on what experiments and suites are.
"""

import json
from pathlib import Path

import yaml

from scripts.common.errors import UserError
from scripts.experiment.settings.machine import Machine, Monitoring

MONITORING = Path("config/monitoring")


class RepeatedKey(yaml.MarkedYAMLError):
    """A mapping has a key twice."""


class UniqueKeys(yaml.SafeLoader):
    """PyYAML's loader, which takes the last of several equal keys, with an error for the second one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key.value, str) or key.tag == "tag:yaml.org,2002:merge":
                continue  # a list or mapping, which is no key and refused below; `<<` may stand there twice
            if key.value in seen:
                raise RepeatedKey(problem=f"{key.value!r} is there twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """PyYAML takes 2024-02-30 for a date, by its form, and fails at making it one."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError) as error:
            problem = f"no such value: {node.value!r:.60}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from error


def read_yaml(path: Path) -> dict:
    """The mapping in a YAML file. Raises UserError: the file is missing, is not YAML, names a key twice or holds no
    mapping."""
    try:
        value = yaml.load(path.read_text(encoding="utf-8"), UniqueKeys)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UserError(f"{path}: no such file") from error
    except RepeatedKey as error:
        raise UserError(f"{path}: line {error.problem_mark.line + 1}: {error.problem}") from error
    except RecursionError as error:
        raise UserError(f"{path}: brackets or indentation too deep") from error
    except yaml.MarkedYAMLError as error:
        line = 1
        if error.problem_mark:
            line = error.problem_mark.line + 1
        tab = ""
        if "\\t" in str(error.problem):
            tab = "; indent with spaces, not tabs"
        raise UserError(f"{path}: line {line}: not YAML: {error.problem}{tab}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8; save it as such") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if value is None:
        raise UserError(f"{path}: empty; it must hold a mapping of keys")
    if not isinstance(value, dict):
        raise UserError(f"{path}: must hold a mapping of keys, not {type(value).__name__}")
    try:
        json.dumps(value, default=str, skipkeys=True)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: an alias (*name) stands inside what it names") from error
    return value


def load_machine(path: Path) -> Machine:
    """A machine file, checked, defaults filled in. Raises UserError: see `read_yaml` and `Record.parse`."""
    return Machine.parse(read_yaml(path), str(path))


def load_monitoring(path: Path) -> Monitoring:
    """A monitoring file, checked, defaults filled in. Raises UserError: see `read_yaml` and `Record.parse`."""
    return Monitoring.parse(read_yaml(path), str(path))
