"""Settings of `evaluation.code`: the benchmarks, and how their generated programs are run."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.generation import ENGINE, Engine
from scripts.experiment.settings.location import Location
from scripts.experiment.settings.record import Number, Record, Unique


class Benchmark(Record):
    path: Text = Field(
        description="File in the format of HumanEval, HumanEval-X, HumanEval+, MBPP, MBPP+, MultiPL-E, LiveCodeBench"
        " or BigCodeBench: JSON lines, also gzipped. With `git`, its path in the repository."
    )
    git: Location | None = Field(
        None, min_length=1, description="Repository that the file comes from: a URL or a folder."
    )
    commit: str | None = Field(
        None, pattern="^[0-9a-f]{40}$", description="Commit of that repository; required with `git`."
    )
    prompt: Literal["completion", "chat"] = Field(
        "completion", description="Whether the model continues the prompt, or answers a request."
    )
    format: Text | None = Field(
        None,
        description="YAML file that says how problems are made of the file's records, for a format of your own; by"
        " default one of those above, known by its fields.",
    )
    few_shot: Annotated[list[str], Unique] = Field(
        [],
        description="Problems of the file shown with their solutions before each prompt, in this order; they are not"
        " scored.",
    )
    ignore: Annotated[list[str], Unique] = Field(
        [], description="Fields of the file that its format does not know and that hold no tests; others are refused."
    )
    ids: Annotated[list[str], Unique, Field(min_length=1)] | None = Field(
        None, description="Problems that are scored; all by default."
    )
    exclude: Annotated[list[str], Unique] = Field(
        [], description="Problems left out, such as those whose published solution does not pass here."
    )
    unjudged: Literal["refuse", "leave out", "count"] = Field(
        "refuse",
        description="What to do with problems whose tests need the program in their own process (mocks, files), as many"
        " in BigCodeBench do: refuse the benchmark, leave them out, or count them as not passed.",
    )
    limit: int | None = Field(None, ge=1, description="Score only this many of the chosen problems, from the first.")

    @model_validator(mode="after")
    def pin_repository(self) -> Self:
        if (self.git is None) != (self.commit is None):
            raise ValueError("give `git` and `commit` together, or neither")
        return self


class Code(Record):
    """pass@k on benchmarks whose generated code is run in a sandbox; needs bubblewrap."""

    benchmarks: list[Benchmark] = Field(min_length=1, description="Benchmark files.")
    k: Annotated[list[Annotated[int, Field(ge=1)]], Unique] = Field(
        [1], min_length=1, description="Each k of pass@k, at most `samples`."
    )
    samples: int = Field(1, ge=1, description="Programs per problem; more than one need a `temperature`.")
    temperature: Number = Field(0, ge=0, description="Sampling temperature; 0 is greedy.")
    top_p: Number = Field(0.95, gt=0, le=1, description="Sample from the likeliest tokens that hold this probability.")
    max_new_tokens: int = Field(512, ge=1, description="Most tokens generated.")
    engine: Engine = ENGINE
    canonical: int = Field(
        10,
        ge=0,
        description="Published solutions of each benchmark that are judged before anything is generated, spread over"
        " the file; if one does not pass, the benchmark is refused. A number above its length means all.",
    )
    python: Text | None = Field(
        None,
        description="Folder of a virtual environment, made with this Python, whose packages generated programs and"
        " their tests may import. Without it programs have the standard library alone.",
    )
    jars: Annotated[list[Text], Unique] = Field(
        [], description="Jars that Java programs and their tests may use, such as javatuples."
    )
    go_vendor: Text | None = Field(
        None, description="Vendor folder of a Go module, whose packages Go programs and their tests may import."
    )
    timeout: Number = Field(10, gt=0, description="Wall clock and CPU time of one program (seconds).")
    memory_megabytes: int = Field(1024, ge=64, description="Memory of one program with all its processes (MB).")
