"""Settings of `evaluation.gate`: the gates over what suites and stages measure."""

from typing import Self

from pydantic import Field, model_validator

from scripts.experiment.settings.record import Number, Record


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
        description="Metric of a suite of the experiment: perplexity, bits_per_byte; exact_match, f1, strict_match;"
        " bleu, chrf; keywords; pass@1, pass@10 and so on; completion_match, edit_similarity,"
        " identifier_f1, parses, answer_bits_per_byte; task_score; correct. Or of a"
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


class Gates(Record):
    confidence: Number = Field(0.95, gt=0, lt=1, description="Confidence level of all intervals.")
    gates: list[Gate] = Field([], description="The gates: success criteria of the experiment.")
    fail: bool = Field(False, description="Whether the run fails if a gate is not met.")
