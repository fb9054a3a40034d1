"""Helpers of the rules: constraints on wildcards, big inputs, arguments that may be long."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from snakemake.io import ancient

from scripts.experiment.arguments import argument_file
from scripts.hosts.invocation import Invocation


def one_of(names: Iterable[str]) -> str:
    """A wildcard constraint that matches exactly these names; without any it matches nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"


def ancient_inputs(*paths: Path) -> list:
    """Inputs that must exist but whose manifest says whether they changed."""
    return [ancient(str(path)) for path in paths]


def argument_writer(folder: Path, call: Invocation | None) -> Callable[..., str]:
    """The function `by_file("--sources", *names)` of the rules; it writes only where jobs run, not in a dry run.

    A single value stays on the command line, behind its option.
    """

    def by_file(option: str, *values: str) -> str:
        if len(values) == 1:
            return f"{option}={values[0]}"
        return argument_file(folder, option, *values, write=call is None or call.runs_jobs)

    return by_file
