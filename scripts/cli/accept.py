"""`stagecraft accept`."""

from typing import Annotated

from cyclopts import Parameter

from scripts.cli.command.options import Experiment, Profile


def accept(
    *jobs: Annotated[str, Parameter(required=True)],
    reason: str,
    profile: Profile = "local",
    experiment: Experiment = None,
) -> None:
    """Keep results after a refactoring that changes none of them; the reason is shown beside them.

    Nothing is run or compared. It exits with 1 if a job is refused. For example:

        stagecraft accept train.sft --reason "renamed a helper"
        stagecraft accept filter perplexity.sft --reason "renamed a helper"

    Args:
        jobs: A rule, or a job as rule.name.
        reason: Why the change of the code changes no result.
    """
    from scripts.report.commands import accept

    accept.accept(profile, experiment, list(jobs), reason)
