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
        description="Source → folder of a virtual environment, made with this Python, that holds the packages it and"
        " its tests import. Others have the standard library and pytest.",
    )
    tasks: int = Field(10, ge=1, description="Most tasks of a source.")
    tries: int = Field(30, ge=1, description="Most functions of a source that are tried.")
    max_lines: int = Field(20, ge=2, description="Most lines of a function's body.")
    tests: int = Field(20, ge=1, description="Most tests of a task, of those that reach its function.")
    timeout: Number = Field(20, gt=0, description="Wall clock and CPU time of a task's tests (seconds).")
    suite_timeout: Number = Field(
        300, gt=0, description="Wall clock and CPU time of all tests of a source, which run once (seconds)."
    )
    memory_megabytes: int = Field(1024, ge=64, description="Memory of the tests, and of the candidate (MB).")
