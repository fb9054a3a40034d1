"""scripts/evaluation/metrics/scoring.py against counting all draws, and Wilson's interval against a published
table."""

from itertools import combinations

import pytest

from scripts.evaluation.metrics.metric import summarize
from scripts.evaluation.metrics.scoring import pass_at_k, pass_figures, pass_suite


@pytest.mark.parametrize("samples", [1, 2, 5, 8])
def test_the_estimate_equals_the_share_of_draws_with_a_pass(samples):
    for passed in range(samples + 1):
        outcomes = [True] * passed + [False] * (samples - passed)
        for k in range(1, samples + 1):
            draws = [any(draw) for draw in combinations(outcomes, k)]
            assert pass_at_k(samples, passed, k) == pytest.approx(sum(draws) / len(draws))


def test_the_estimate_gives_the_figures_published_with_the_estimator():
    # Chen et al. 2021: pass@1 is the share that passes; 1 - (1 - c/n)^k would say 0.44 for the second
    assert pass_at_k(200, 50, 1) == pytest.approx(0.25)
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5)
    assert pass_at_k(200, 1, 100) == pytest.approx(0.5)


def test_scores_are_the_means_over_problems():
    items = [
        pass_figures(outcomes, [1, 2])
        for outcomes in (["passed", "wrong", "passed"], ["timeout", "timeout", "compile error"], ["passed"] * 3)
    ]
    assert items[0]["pass@2"] == 1 and items[0]["pass@1"] == pytest.approx(2 / 3)
    summary = summarize(pass_suite([1, 2]), items)
    assert (summary["pass@1"], summary["pass@2"]) == (pytest.approx(5 / 9), pytest.approx(2 / 3))
    assert (summary["documents"], summary["passed"], summary["timeout"], summary["memory"]) == (3, 5, 2, 0)
