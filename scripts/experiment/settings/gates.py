"""Settings of `evaluation.gate`: the gates over what suites and stages measure."""

from typing import Self

from pydantic import Field, model_validator

from scripts.experiment.settings.record import Number, Record


class Guard(Record):
    dataset: str = Field(description="Dataset scored.")
    language: str = Field("all", description="Language scored, or `all`.")
    metric: str = Field(description="Metric of a suite that runs.")
    by: Number = Field(0, ge=0, description="How much worse the model may be.")


class Gate(Record):
    name: str = Field(description="What the gate says.")
    dataset: str | None = Field(
        None,
        description="Dataset scored; as `language` and `against`, not for a metric of a stage or model itself.",
    )
    language: str = Field("all", description="Language scored, or `all`.")
    model: str = Field(description="Stage, or scored `base`.")
    against: str | None = Field(
        None, description="Other model; the metric is then the paired difference model - against."
    )
    metric: str = Field(
        description="Metric gated, of a suite that runs: perplexity, bits_per_byte; exact_match, f1, strict_match;"
        " bleu, chrf; keywords, structure; pass@1, pass@10 and so on; completion_match, edit_similarity,"
        " identifier_f1, parses, answer_bits_per_byte; repository_pass@1; task_score; correct. Or of a model itself,"
        " with suite latency: first_token_seconds, answer_seconds, tokens_per_second. Or of a stage itself: loss"
        " (validation, nats per token), gradient_norm (median of those logged, before clipping), memory_gib (peak of"
        " its fullest GPU, as reserved)."
    )
    below: Number | None = Field(None, description="Met when the metric is below this.")
    above: Number | None = Field(None, description="Met when the metric is above this.")
    not_worse: list[Guard] = Field(
        [],
        description="Where the model may not be worse than `against` by more than a margin: each is a gate of its own"
        " beside this one.",
    )

    @model_validator(mode="after")
    def bound_one_side(self) -> Self:
        if self.not_worse and self.against is None:
            raise ValueError("`not_worse` needs `against`, the model compared with")
        if (self.below is None) == (self.above is None):
            raise ValueError("give exactly one of below, above")
        return self


class Gates(Record):
    confidence: Number = Field(0.95, gt=0, lt=1, description="Level of all intervals.")
    resamples: int = Field(2000, ge=100, description="Bootstrap resamples over items.")
    gates: list[Gate] = Field([], description="Success criteria.")
    fail: bool = Field(False, description="An unmet gate fails the run.")
