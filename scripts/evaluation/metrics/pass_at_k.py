"""pass@k: the probability that at least one of k samples passes, estimated without bias from n samples per problem.

    figures(["passed", "wrong", "passed", "timeout"], ks=[1, 2])  # {"pass@1": 0.5, "pass@2": 0.83, "passed": 2, ...}

Chen et al. 2021, Evaluating Large Language Models Trained on Code, equation 1: if c of n samples pass, a draw of k
without replacement contains no passing one with probability C(n - c, k) / C(n, k). A model's pass@k is the mean over
problems.
"""

from collections.abc import Collection
from math import comb

from scripts.evaluation.metrics.metric import Suite, means
from scripts.judge.problem import FAULTS, OUTCOMES


def unbiased(samples: int, passed: int, k: int) -> float:
    """The estimate for one problem, `passed` of `samples` having passed; k is at most `samples`."""
    return 1 - comb(samples - passed, k) / comb(samples, k)


def figures(outcomes: list[str], ks: list[int]) -> dict[str, float]:
    """For one problem: pass@k for each k, and how many samples had each outcome."""
    samples, passed = len(outcomes), outcomes.count("passed")
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    return {f"pass@{k}": unbiased(samples, passed, k) for k in ks} | counts


def suite(ks: Collection[int]) -> Suite:
    """The suite over problems: a pass@k for each k; samples per outcome are counted beside it."""
    rates = means(*(f"pass@{k}" for k in ks))
    return rates._replace(figures=rates.figures | dict.fromkeys(OUTCOMES, 1), counts=OUTCOMES, faults=FAULTS)
