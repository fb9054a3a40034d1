"""The sources of suite `repository_tests`, whose own tests judge what a model writes."""

from scripts.common.errors import UserError
from scripts.experiment.settings.evaluation import RepositoryTests
from scripts.experiment.settings.record import Record
from scripts.experiment.suites import check_name


def tested_sources(settings: RepositoryTests | None, sources: dict[str, Record]) -> dict[str, Record]:
    """The rows of the sources table that the suite takes its tasks from, by name.

    Raises:
        UserError: a source is not in the table or not in Python, or there is no Python source.
    """
    if settings is None:
        return {}
    python = [name for name, source in sources.items() if source.language == "python"]
    if not python:
        raise UserError("evaluation.repository_tests: no Python source in the table of sources")
    for key, names in (("sources", settings.sources or []), ("environments", settings.environments)):
        for name in names:
            check_name(f"evaluation.repository_tests.{key}", name, python)
    return {name: sources[name] for name in settings.sources or python}
