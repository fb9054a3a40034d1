"""Settings that several suites share: how a model generates, what a benchmark is, and the gates over all scores."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from scripts.experiment.settings.record import Location, Number, Record, Text, Unique

REPETITION = (
    "Penalty for tokens that are already in the text: positive logits are divided by it, negative ones multiplied."
)


class Generation(Record):
    """How a model generates texts."""

    max_new_tokens: int = Field(512, ge=1, description="Maximum number of generated tokens.")
    temperature: Number = Field(0, ge=0, description="Sampling temperature; 0 is greedy.")
    top_p: Number = Field(
        1,
        gt=0,
        le=1,
        description="Sample from the most likely tokens whose probabilities add up to this (nucleus sampling).",
    )
    repetition_penalty: Number = Field(1, gt=0, description=REPETITION)
    samples: int = Field(
        1, ge=1, description="Generated texts per prompt; more than one only with a temperature above 0."
    )


class InPlace(Generation):
    """How a model writes a part of a file in place."""

    form: Literal["fim", "plain"] = Field(
        "fim",
        description="`fim`: the prompt has the text before and after the answer, as fill-in-the-middle; `plain`:"
        " only the text before it.",
    )
    prompt_characters: int = Field(6000, ge=1, description="Maximum number of characters of the file in a prompt.")
    max_new_tokens: int = Field(256, ge=1, description="Maximum number of generated tokens.")


class Places(Record):
    """Where files of code are scored: runs of lines all over each file, with the file's own text before them. Licence
    headers and imports are left out. Without it, whole texts are scored."""

    per_file: int = Field(2, ge=1, description="Places in each file, spread over it by a hash of its content.")
    lines: int = Field(20, ge=1, description="Lines of a place.")


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


class Gate(Record):
    name: str = Field(description="Name of the gate; shown in the report.")
    dataset: str | None = Field(
        None,
        description="Dataset of the score. Metrics of a stage or of a model itself have no `dataset`, `language` and"
        " `against`.",
    )
    language: str = Field("all", description="Language, or `all`.")
    model: str = Field(description="A stage, or `base`.")
    against: str | None = Field(
        None,
        description="Another model to compare with; the value is then the paired difference of the metric, `model`"
        " minus `against`.",
    )
    metric: str = Field(
        description="Metric of a suite of the experiment: perplexity, bits_per_byte, lines, typing_saved;"
        " exact_match, f1, strict_match; bleu, chrf; keywords; pass@1, pass@10 and so on; completion_match,"
        " edit_similarity, identifier_f1, parses, answer_bits_per_byte; task_score; correct. Or of a"
        " model itself, with suite latency: first_token_seconds, answer_seconds, tokens_per_second. Or of"
        " a stage itself: loss (validation, nats per token), gradient_norm (median of the logged values,"
        " before clipping), memory_gib (peak reserved memory of the GPU that needs most)."
    )
    below: Number | None = Field(None, description="The gate is met if the metric is below this.")
    above: Number | None = Field(None, description="The gate is met if the metric is above this.")

    @model_validator(mode="after")
    def bound_one_side(self) -> Self:
        if (self.below is None) == (self.above is None):
            raise ValueError("give exactly one of below, above")
        return self


class SmallestGain(Record):
    """The smallest gain that matters: an effect whose whole interval is below it counts as none."""

    bits_per_byte: Number = Field(0.01, ge=0, description="Of code a model of its size needs about one: 1% of that.")
    lines: Number = Field(
        0.01, ge=0, description="Share of the lines that are written as they stand: one line of a hundred more."
    )


class Gates(Record):
    smallest_gain: SmallestGain = SmallestGain()
    controls: dict[str, str] = Field(
        {},
        description="Stage → its control, a stage that is trained alike on other code. The report then says what the"
        " team's code gives rather than any code.",
    )
    confidence: Number = Field(0.95, gt=0, lt=1, description="Confidence level of all intervals.")
    gates: list[Gate] = Field([], description="The gates: success criteria of the experiment.")
    fail: bool = Field(False, description="Whether the run fails if a gate is not met.")
