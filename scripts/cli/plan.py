"""`stagecraft plan`."""

from scripts.cli.command.options import Experiment, Profile


def plan(*, profile: Profile = "local", experiment: Experiment = None, rows: int | None = None) -> None:
    """Print whether each stage fits, how long it takes and what it costs; needs no data.

    It exits with 1 if a stage does not fit. For example:

        stagecraft plan --profile a40
        stagecraft plan --profile a800 --experiment cpt-muon --rows 100000

    Args:
        rows: Plan for so many packed training rows, instead of counting or estimating them.
    """
    from scripts.training.planning.overview import print_plans

    print_plans(profile, experiment, rows)
