"""`stagecraft calibrate`."""

from scripts.cli.command.options import Experiment, Profile


def calibrate(*, profile: Profile = "local", experiment: Experiment = None) -> None:
    """Write the speed and memory that finished stages measured into the machine file, for later plans.

    For example:

        stagecraft calibrate --profile a40
    """
    from scripts.training.planning import calibrate

    calibrate.calibrate(profile, experiment)
