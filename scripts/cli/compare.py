"""`stagecraft compare`."""

from pathlib import Path

from scripts.cli.command.options import Folder


def compare(a: Folder, b: Folder, /, *, out: Folder = Path("results/compare")) -> None:
    """Print what run B gained and lost against run A, problem by problem, and draw it.

    For example:

        stagecraft compare results /elsewhere/results

    Args:
        a: The results root of run A.
        b: The results root of run B.
        out: The folder for compare.json and compare.svg.
    """
    from scripts.report.commands import compare

    compare.compare(a, b, out)
