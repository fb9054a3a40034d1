"""The file that says how problems are made of a benchmark's records: `evaluation.code.benchmarks[].format`."""

from typing import Annotated, Literal

from pydantic import Field

from scripts.experiment.settings.filter import Text
from scripts.experiment.settings.record import Record, Unique


class BenchmarkFormat(Record):
    """Texts are Jinja templates over the fields of a record, as `"{{ test }}\\ncheck({{ entry_point }})"`."""

    id: Text = Field(description="Name of a problem, unique in the file.")
    language: Text = Field(
        "python",
        description="Language of the program: python, java, go, rust, cpp or javascript.",
    )
    prompt: Text = Field(description="What the model continues.")
    head: str | None = Field(
        None, description="The part of the program before a completion; the prompt by default, empty for none."
    )
    tests: Text = Field(
        description="Source of the tests, in the same language: the program passes if they end without an error. With"
        " `judge: stdio` a JSON list of mappings with `input` and `output`."
    )
    entry: str | None = Field(
        None,
        description="Name of the function under test; by default the last one that begins in the head, empty where"
        " only the tests name it. Not with `judge: stdio`.",
    )
    canonical: str | None = Field(
        None, description="The published solution as a completion; some of them are judged before anything else."
    )
    imports: str = Field("", description="For Go, source that names the packages that code and tests may import.")
    stops: Annotated[list[Text], Unique] | Text | None = Field(
        None,
        description="Strings that end a completion, or the name of the field that lists them. By default, for Python"
        " those of HumanEval, for others the brace that closes the function.",
    )
    judge: Literal["calls", "stdio"] = Field(
        "calls",
        description="`calls`: the tests call the program's functions. `stdio`: the program reads standard input and"
        " its output is compared, for Python.",
    )
    ignore: Annotated[list[Text], Unique] = Field(
        [],
        description="Fields that hold nothing that a judge needs. A field that is neither here nor used is an error.",
    )
