"""Options that several verbs of `stagecraft` share: paths from where the user stands, profiles, experiments."""

import difflib
import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from scripts.common.errors import UserError

ROOT = Path(__file__).parents[1]
EXPERIMENTS = ("config/experiments", "config")  # where an experiment's bare name is looked up


def from_root(path: str) -> str:
    """A path that was given from the current folder, as it is written in the checkout's root."""
    if Path.cwd() == ROOT or Path(path).is_absolute():
        return path
    return os.path.relpath(path, ROOT)


def profiles() -> list[str]:
    """The names of the profiles that experiments can run on."""
    return sorted(path.parent.name for path in ROOT.glob("profiles/*/config.yaml") if path.parent.name != "default")


def experiments() -> list[str]:
    """The names by which experiment files can be called."""
    names = set()
    for folder in EXPERIMENTS:
        names.update(path.stem for path in ROOT.glob(f"{folder}/*.yaml"))
    return sorted(names)


def suggestion(word: str, known: list[str]) -> str:
    """What an error adds about a word that is none of the known ones."""
    close = difflib.get_close_matches(word, known, 1)
    if close:
        return f"did you mean {close[0]}?"
    return f"known: {', '.join(known)}"


def find_profile(word: str) -> str:
    """The folder of a profile that was given as its name or as a folder."""
    for folder in (from_root(word), word, f"profiles/{word}"):
        if (ROOT / folder / "config.yaml").is_file():
            return folder
    raise UserError(f"--profile {word}: no such profile; {suggestion(word, profiles())}")


def find_experiment(word: str) -> Path:
    """The experiment file that was given as a file or by its bare name."""
    if Path(word).is_file():
        return Path(from_root(word))
    name = word.removesuffix(".yaml")
    for folder in EXPERIMENTS:
        path = Path(folder, f"{name}.yaml")
        if (ROOT / path).is_file():
            return path
    raise UserError(f"--experiment {word}: no such file; {suggestion(Path(name).name, experiments())}")


Folder = File = Annotated[Path, Parameter(converter=lambda _, tokens: Path(from_root(tokens[0].value)))]
Several = Parameter(consume_multiple=True, negative=())
Profile = Annotated[
    str,
    Parameter(
        converter=lambda _, tokens: find_profile(tokens[0].value),
        completer=lambda _: profiles(),
        help="The profile of the run: a name in profiles/, or a folder.",
    ),
]
Experiment = Annotated[
    Path | None,
    Parameter(
        converter=lambda _, tokens: find_experiment(tokens[0].value),
        completer=lambda _: experiments(),
        help="The experiment: a file, or its name in config/experiments or config. Without it the profile's own.",
        show_default=False,
    ),
]
