"""pass@k: the chance that at least one of k samples passes, estimated without bias from n samples a problem.

    figures(["passed", "wrong", "passed", "timeout"], ks=[1, 2])  # {"pass@1": 0.5, "pass@2": 0.83, "passed": 2, ...}

Chen et al. 2021, Evaluating Large Language Models Trained on Code, equation 1: of n samples of which c pass, a draw of
k without putting back holds none that passes with probability C(n - c, k) / C(n, k). A model's pass@k is the mean over
problems.
"""

from math import comb

from scripts.evaluation.metrics.metric import Suite, means
from scripts.evaluation.sandbox.judge import OUTCOMES


def unbiased(samples: int, passed: int, k: int) -> float:
    """The estimate for one problem, `passed` of `samples` having passed; k is at most `samples`."""
    return 1 - comb(samples - passed, k) / comb(samples, k)


def figures(outcomes: list[str], ks: list[int]) -> dict[str, float]:
    """Of one problem the pass@k, and how many samples had each outcome."""
    samples, passed = len(outcomes), outcomes.count("passed")
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES}
    return {f"pass@{k}": unbiased(samples, passed, k) for k in ks} | counts


def suite(ks: list[int]) -> Suite:
    """What is measured over problems: a pass@k for each k; outcomes are counted beside it."""
    found = means(*(f"pass@{k}" for k in ks))
    return found._replace(figures=found.figures | dict.fromkeys(OUTCOMES, 1), counts=OUTCOMES)
