"""pass@1 by a repository's own tests: the share of functions whose tests pass with the body that a model wrote.

    figures(["passed", "failed"])     # {"repository_pass@1": 0.5, "passed": 1, "failed": 1, ...}

Of several samples of a function the figure is their mean. An `environment fault` is none of the model's: with one,
nothing was measured.
"""

from scripts.evaluation.metrics.metric import means

FAULTS = ("environment fault",)
OUTCOMES = ("passed", "failed", "does not load", "timeout", "memory", *FAULTS)
METRIC = "repository_pass@1"
RATE = means(METRIC)
SUITE = RATE._replace(figures=RATE.figures | dict.fromkeys(OUTCOMES, 1), counts=OUTCOMES, faults=FAULTS)


def figures(outcomes: list[str]) -> dict[str, float]:
    """For one function: the share that passed, and how many samples had each outcome."""
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    return {METRIC: counts["passed"] / len(outcomes)} | counts
