"""`stagecraft proof`."""

from scripts.cli.command.options import Profile


def proof(*, profile: Profile = "local") -> None:
    """Measure whether a model knows the repository that it was trained on, against a placebo.

    It makes the repositories of config/examples/own-code.yaml, runs that and prints the table. For example:

        stagecraft proof --profile local
    """
    from benchmarks.own_code.differences import prove

    prove(profile)
