"""`stagecraft status`."""

from scripts.cli.command.options import Experiment, Folder, Profile


def status(
    *,
    profile: Profile = "local",
    experiment: Experiment = None,
    results: Folder | None = None,
    watch: float | None = None,
) -> None:
    """Print the state of all jobs: of each stage its step, loss, speed, time left and last alert.

    It only reads what the jobs write, during a run or after it. For example:

        stagecraft status --profile a40 --watch 30

    Args:
        results: The results root, if not the experiment's own.
        watch: Print it again every so many seconds, until Ctrl-C.
    """
    from scripts.report.commands.status import show_status

    show_status(profile, experiment, results, watch)
