"""`stagecraft forget`."""

from scripts.cli.command.options import Experiment, Profile


def forget(source: str, /, *, apply: bool = False, profile: Profile = "local", experiment: Experiment = None) -> None:
    """List what was made from a source and the jobs to run without it; with --apply, remove it and certify that.

    For example:

        stagecraft forget click
        stagecraft forget click --apply

    Args:
        source: Its name in the table of sources.
        apply: Do it: the row leaves the table, what stood on it is made again, its data are removed.
    """
    from scripts.release.forget import forget_source

    forget_source(profile, experiment, source, apply)
