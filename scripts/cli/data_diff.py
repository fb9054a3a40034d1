"""`stagecraft data-diff`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from scripts.cli.command.options import Experiment, Profile, from_root


def folder_or_revision(word: str) -> str:
    return from_root(word) if Path(word).is_dir() else word


Side = Annotated[str, Parameter(converter=lambda _, tokens: folder_or_revision(tokens[0].value))]


def data_diff(a: Side, b: Side, /, *, profile: Profile = "local", experiment: Experiment = None) -> None:
    """Print how the data of two runs or of two git revisions differ: sources, files, tokens, examples.

    For example:

        stagecraft data-diff main~1 main
        stagecraft data-diff results results/mine

    Args:
        a: A results root or a git revision.
        b: A results root or a git revision.
    """
    from scripts.report.commands.data_diff import print_difference

    print_difference(a, b, profile, experiment)
