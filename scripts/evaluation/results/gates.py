"""Judge gates: whether a metric is on the right side of its bound, and whether its interval is too.

outcome(0.44, [0.37, 0.52], "above", 0.4)  # "met, not secured"
"""

from typing import NamedTuple

from scripts.common.errors import UserError
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.experiment.settings.suites import Gate

Interval = list[float] | None


class GateResult(NamedTuple):
    """A gate as in eval.json; a gate on a stage or model itself has no dataset, language or other model."""

    name: str
    dataset: str | None
    language: str | None
    model: str
    against: str | None
    metric: str
    value: float | None
    interval: Interval
    side: str  # "below" or "above"
    bound: float
    outcome: str  # see `outcome`, or "not measured"
    seeds: list[float] | None = None  # the value with each seed, of a stage that has several
    documents: int | None = None  # of which the values are, then


def on_side(value: float, side: str, bound: float) -> bool:
    """Whether a value is `below` or `above` the bound."""
    if side == "below":
        return value < bound
    return value > bound


def outcome(value: float, interval: Interval, side: str, bound: float) -> str:
    """`met` or `not met`, followed by `, not secured` if the interval crosses the bound or there is none."""
    met = on_side(value, side, bound)
    secured = interval and all(on_side(end, side, bound) == met for end in interval)
    return f"{'met' if met else 'not met'}{'' if secured else ', not secured'}"


def bound_of(gate: Gate) -> tuple[str, float]:
    """(`below` or `above`, the bound)."""
    if gate.below is not None:
        return ("below", gate.below)
    return ("above", gate.above)


def result(
    gate: Gate,
    value: float | None,
    interval: Interval,
    judged: str,
    seeds: list[float] | None = None,
    documents: int | None = None,
) -> GateResult:
    side, bound = bound_of(gate)
    language = gate.language if gate.dataset else None  # by default "all"
    place = gate.name, gate.dataset, language, gate.model, gate.against, gate.metric
    return GateResult(*place, value, interval, side, bound, judged, seeds, documents)


def stage_gate(gate: Gate, summaries: list[dict]) -> GateResult:
    """A gate on a figure of a stage's summary.json: met, not met or not measured; such a figure has no interval.
    `summaries`: with each seed; the worst figure decides."""
    name = "eval_loss" if gate.metric == "loss" else gate.metric
    figures = [summary.get(name) for summary in summaries]
    if None in figures:
        return result(gate, None, None, "not measured")
    worst = max(figures) if gate.below is not None else min(figures)
    return result(gate, worst, None, "met" if on_side(worst, *bound_of(gate)) else "not met")


def latency_gate(gate: Gate, latency: dict) -> GateResult:
    """A gate on a figure of a model's latency; not measured if the model was not timed on the target hardware."""
    figure = latency.get(gate.metric)
    if not figure:
        return result(gate, None, None, "not measured")
    value, interval = figure["value"], figure["interval"]
    return result(gate, value, interval, outcome(value, interval, *bound_of(gate)))


def suite_gate(gate: Gate, comparison: SuiteComparison | None, key: str) -> GateResult:
    """A gate on a metric of a suite.

    Args:
        comparison: None if the suite has no scores yet.
        key: of the gate in the experiment file, for errors.

    Raises:
        UserError: the gate names a language that has no documents.
    """
    if comparison is None:
        return result(gate, None, None, "not measured")
    place = gate.dataset, gate.language
    if place not in comparison.places:
        known = ", ".join(language for dataset, language in comparison.places if dataset == gate.dataset)
        raise UserError(f"{key}.language: {gate.dataset} has no test documents of {gate.language!r}; it has: {known}")
    estimated = comparison.measure(gate.metric, place, gate.model, gate.against)
    value, interval = estimated["value"], estimated["interval"]
    if value is None:
        return result(gate, None, None, "not measured")
    judged = outcome(value, interval, *bound_of(gate))
    return result(gate, value, interval, judged, estimated.get("seeds"), estimated.get("documents"))


def verdict(outcomes: list[str]) -> str:
    """The weakest outcome: one unmet gate decides, else one that was not measured."""
    if not outcomes:
        return "no gates"
    if any(outcome.startswith("not met") for outcome in outcomes):
        return "not met"
    if "not measured" in outcomes:
        return "not measured"
    if all(outcome == "met" for outcome in outcomes):
        return "met"
    return "met, not secured"
