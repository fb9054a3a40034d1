"""`stagecraft publish`."""

from scripts.cli.command.options import Experiment, Profile


def publish(*, profile: Profile = "local", experiment: Experiment = None) -> None:
    """Push raw archives and finished results to the DVC remote, and write the pointers to be committed.

    For example:

        stagecraft publish --profile a40 --experiment qwen2.5-7b-code
    """
    from scripts.release.publish import publish_experiment

    publish_experiment(profile, experiment)
