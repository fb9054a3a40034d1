"""Settings of a benchmark of `evaluation.code`, which the filter and the search for contamination read too."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.location import Location
from scripts.experiment.settings.record import Record, Unique


class Benchmark(Record):
    path: Text = Field(
        description="File in the format of HumanEval, HumanEval-X, MBPP, MultiPL-E or LiveCodeBench:"
        " JSON lines, also gzipped. With `git`, the file's path in that repository."
    )
    git: Location | None = Field(
        None, min_length=1, description="Repository that the file comes from: a URL or a folder."
    )
    commit: str | None = Field(
        None, pattern="^[0-9a-f]{40}$", description="Commit of that repository; required with `git`."
    )
    prompt: Literal["completion", "chat"] = Field(
        "completion", description="`completion`: the model continues the prompt; `chat`: it answers a request."
    )
    few_shot: Annotated[list[str], Unique] = Field(
        [],
        description="Problems of the file that are shown, with their solutions and in this order, before each"
        " prompt; they are not scored.",
    )
    ignore: Annotated[list[str], Unique] = Field(
        [], description="Unknown fields of the file that contain no tests. Any other unknown field is an error."
    )
    ids: Annotated[list[str], Unique, Field(min_length=1)] | None = Field(
        None, description="Problems to score; all by default."
    )
    exclude: Annotated[list[str], Unique] = Field(
        [], description="Problems to leave out, such as those whose published solution does not pass here."
    )
    limit: int | None = Field(None, ge=1, description="Score only this many of the chosen problems, from the first.")

    @model_validator(mode="after")
    def pin_repository(self) -> Self:
        if (self.git is None) != (self.commit is None):
            raise ValueError("give `git` and `commit` together, or neither")
        return self
