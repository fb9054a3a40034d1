"""Settings of `evaluation.repository_tests` that decide the tasks: repositories, environments and bounds."""

from typing import Annotated

from pydantic import Field

from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Number, Record, Unique


class RepositoryTasks(Record):
    """Which functions are to be written, and what running their tests may take."""

    sources: Annotated[list[str], Unique, Field(min_length=1)] | None = Field(
        None, description="Python sources with tests; all Python sources of the table by default."
    )
    environments: dict[str, Text] = Field(
        {},
        description="Mapping from a source to the folder of a virtual environment, made with this Python, that has"
        " the packages which the source and its tests import. Other sources can import only the standard"
        " library and pytest.",
    )
    tasks: int = Field(10, ge=1, description="Maximum number of tasks of a source.")
    timeout: Number = Field(20, gt=0, description="Limit on wall clock and CPU time for the tests of a task (seconds).")
    memory_megabytes: int = Field(
        1024, ge=64, description="Memory limit of the tests, and of the candidate's code (MB)."
    )
