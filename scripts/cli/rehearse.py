"""`stagecraft rehearse`."""

from scripts.cli.command.options import Experiment, Profile


def rehearse(*, profile: Profile = "local", experiment: Experiment = None) -> None:
    """Make all data, plan, then run 3 steps of each stage and 2 items of each suite with a tiny model.

    It runs where the profile says, below results/rehearsal/. For example:

        stagecraft rehearse --profile a40 --experiment qwen2.5-7b-code
    """
    from scripts.report.commands import rehearse

    rehearse.rehearse(profile, experiment)
