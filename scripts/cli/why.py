"""`stagecraft why`."""

from scripts.cli.command.options import Experiment, Folder, Profile


def why(
    a: Folder | None = None, b: Folder | None = None, /, *, profile: Profile = "local", experiment: Experiment = None
) -> None:
    """Print why jobs would run, or why two results differ.

    Nothing is run. For example:

        stagecraft why --profile a40
        stagecraft why results /elsewhere/results

    Args:
        a: A results root, to be compared with B.
        b: Another results root.
    """
    from scripts.report.commands import why

    if a is None:
        why.print_causes(profile, experiment)
    else:
        why.print_differences(a, b)
