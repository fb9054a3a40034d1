"""`stagecraft ablate`."""

from scripts.cli.command.options import Experiment, Profile


def ablate(*, profile: Profile = "local", experiment: Experiment = None) -> None:
    """Train and score the arms of an experiment's `ablate`, and print the effect of each.

    Finished jobs do not run again. For example:

        stagecraft ablate --profile a40 --experiment config/experiments/mine.yaml
    """
    from scripts.report.commands import ablate

    print("\n".join(ablate.ablate(profile, experiment)))
