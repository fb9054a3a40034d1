"""The program `snakemake` of the environment: Snakemake itself, after a look at the files that it is given.

`make env` copies this file into it. Snakemake reads `--configfile`, `--config` and `--profile` before any code of a
workflow runs, and ends with a traceback where one of them is wrong; a mistake is one line here.
"""

import re
import sys
from pathlib import Path


def two_units(resources: object) -> list[str]:
    """The keys by which one resource is given twice, as `mem` and `mem_mb`; empty where none is."""
    if not isinstance(resources, dict):
        return []
    for name in ("mem", "disk"):
        given = [key for key in (name, f"{name}_mb", f"{name}_mib") if key in resources]
        if len(given) > 1:
            return given
    return []


def given_twice(profile: str) -> str:
    """Which resource of a profile stands there in two units; empty where none does."""
    from scripts.experiment.machine_files import read_yaml

    files = [Path(profile) / "config.yaml", Path("profiles") / profile / "config.yaml"]
    path = next((path for path in files if path.is_file()), None)
    if path is None:
        return ""
    settings = read_yaml(path)
    places = {"default-resources": settings.get("default-resources")}
    of_rules = settings.get("set-resources")
    if isinstance(of_rules, dict):
        places |= {f"set-resources.{rule}": resources for rule, resources in of_rules.items()}
    for place, resources in places.items():
        keys = two_units(resources)
        if keys:
            return f"{path}: {place} has {' and '.join(keys)}, which are one resource; keep one of them"
    return ""


def mistakes(words: list[str]) -> str:
    """What is wrong with the experiment files and settings of a command line; empty where nothing is."""
    from scripts.common.errors import UserError
    from scripts.experiment.machine_files import read_yaml

    option = ""
    for word in words:
        if word.startswith("-"):
            option, _, word = word.partition("=")
            if not word:
                continue
        if option in ("--configfile", "--configfiles"):
            if re.match(r"results/|data$|all$", word) and not Path(word).exists():
                return f"{word}: a target, behind --configfile, which takes all files that follow; put it before"
            try:
                read_yaml(Path(word))
            except UserError as error:
                return str(error)
        elif option in ("--profile", "--workflow-profile"):
            try:
                line = given_twice(word)
            except UserError as error:
                return str(error)
            if line:
                return line
        elif option in ("--config", "-C") and "." in word.partition("=")[0]:
            key = word.partition("=")[0]
            return f"--config {key}: takes no dotted key; write it in a file that has `extends`, as --configfile"
    return ""


if __name__ == "__main__":
    if sys.platform != "linux":
        sys.exit("error: stagecraft runs on Linux: on Windows use WSL 2, on a Mac a Linux machine or container")
    if Path("Snakefile").is_file() and Path("scripts/cli.py").is_file():
        sys.path.insert(0, str(Path.cwd()))
        line = mistakes(sys.argv[1:])
        sys.path.pop(0)
        if line:
            sys.exit(f"error: {line}")
    from snakemake.cli import main

    sys.exit(main())
