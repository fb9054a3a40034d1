"""Intervals and p against Student's t, published examples and closed forms; how often they miss; that they agree."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from scripts.evaluation.results.intervals import (
    cluster_values,
    design_effect,
    detectable,
    direction,
    estimate,
    mcnemar,
    mean_interval,
    tango,
    wilson,
)
from scripts.evaluation.suites.perplexity import SUITE

BITS, PERPLEXITY = (SUITE.metrics[name].compute for name in ("bits_per_byte", "perplexity"))
Z = NormalDist().inv_cdf(0.975)


def draw(documents: int, generator: np.random.Generator, spread: float = 0.3) -> np.ndarray:
    """[documents, 3]: a mean of 1 nat per token, 4 bytes per token, lengths that vary."""
    tokens = generator.lognormal(5, 0.5, documents)
    return np.stack([tokens * generator.normal(1, spread, documents), tokens, 4 * tokens], axis=1)


def deviation(numerator: np.ndarray, denominator: np.ndarray) -> float:
    """Standard deviation of sum(numerator) / sum(denominator) by the delta method (Cochran 1977, 2.11)."""
    ratio = numerator.sum() / denominator.sum()
    return math.sqrt(((numerator - ratio * denominator) ** 2).sum()) / denominator.sum()


def alone(count: int) -> np.ndarray:
    """Each document is a cluster of its own."""
    return np.arange(count)


def test_a_difference_of_plain_means_without_skewness_is_the_paired_t_test():
    gap = np.random.default_rng(1).normal(0.1, 0.4, 25)
    gap = np.concatenate([gap, 0.2 - gap])  # its mirror image
    result, expected = estimate(gap, 50, 0.95), stats.ttest_1samp(gap, 0)
    assert result.p == pytest.approx(expected.pvalue)
    assert result.interval == pytest.approx(list(expected.confidence_interval(0.95)))


@pytest.mark.parametrize("draw_values", ["exponential", "lognormal"])
def test_skewed_differences_are_missed_at_most_seven_times_in_a_hundred(draw_values):
    generator, runs = np.random.default_rng(4), 3000
    truth = {"exponential": 1.0, "lognormal": math.exp(0.5)}[draw_values]
    for count in (12, 24, 40):
        missed, drawn = 0, getattr(generator, draw_values)(size=(runs, count))
        for values in drawn:
            low, high = estimate(values, count, 0.95).interval
            missed += not low <= truth <= high
        by_t = np.count_nonzero(stats.ttest_1samp(drawn, truth, axis=1).pvalue < 0.05)
        assert missed / runs <= 0.07 < by_t / runs + 0.005
        # and so are their mirror images
        assert estimate(-values, count, 0.95).interval == pytest.approx([-high, -low])


def test_the_interval_of_a_ratio_of_many_documents_is_that_of_the_delta_method():
    documents = draw(1500, np.random.default_rng(0))
    nll, tokens, size = documents.T
    value, sd = nll.sum() / math.log(2) / size.sum(), deviation(nll / math.log(2), size)
    bits = estimate(cluster_values(documents, BITS), 1500, 0.95)
    assert bits.value == pytest.approx(value)
    assert bits.interval == pytest.approx([value - Z * sd, value + Z * sd], abs=0.02 * sd)
    mean, sd = nll.sum() / tokens.sum(), deviation(nll, tokens)
    perplexity = estimate(cluster_values(documents, PERPLEXITY), 1500, 0.95)
    assert np.log(perplexity.interval) == pytest.approx([mean - Z * sd, mean + Z * sd], abs=0.05 * sd)


@pytest.mark.parametrize("documents", [8, 40])
def test_intervals_hold_the_truth_as_often_as_they_say(documents):
    generator, truth, held = np.random.default_rng(documents), 1 / math.log(2) / 4, 0
    for _ in range(1500):
        drawn = draw(documents, generator)
        effective = drawn[:, 2].sum() ** 2 / (drawn[:, 2] ** 2).sum()
        low, high = estimate(cluster_values(drawn, BITS), effective, 0.95).interval
        held += low <= truth <= high
    assert 0.94 <= held / 1500 <= 0.985


def test_the_interval_leaves_zero_out_exactly_where_p_is_below_the_level():
    generator = np.random.default_rng(3)
    for count in (6, 9, 30):
        for confidence in (0.9, 0.95, 0.99):
            for shift in (0.0, 0.2, 0.5):
                gap = generator.normal(shift, 0.4, count) ** generator.choice([1, 3])
                result = estimate(gap, generator.uniform(1.5, count), confidence)
                assert (result.p < 1 - confidence) == (not result.interval[0] <= 0 <= result.interval[1])
    for count in (1, 6, 25):
        for gained in range(count + 1):
            for lost in range(count + 1 - gained):
                low, high = tango(gained, lost, count, 0.95)
                assert -1 <= low <= (gained - lost) / count <= high <= 1
                assert (mcnemar(gained, lost) < 0.05) == (not low <= 0 <= high)


def test_clusters_that_all_differ_by_the_same_amount_prove_no_more_than_throws_of_a_coin():
    result = estimate(np.full(6, 0.4), 6, 0.95)
    assert result.p == pytest.approx(2.0**-5) and 0 < result.interval[0] < 0.4
    assert estimate(np.zeros(9), 9, 0.95) == (0.0, [0.0, 0.0], 1.0)


@pytest.mark.parametrize(
    ("right", "count", "ends"),
    [(72, 164, (0.3654, 0.5155)), (0, 10, (0, 0.2775)), (10, 10, (0.7225, 1)), (1, 2, (0.0945, 0.9055))],
)
def test_wilsons_interval_solves_its_equation(right, count, ends):
    actual = wilson(right, count, 0.95)
    assert actual == pytest.approx(ends, abs=1e-4)
    for end in actual:
        if 0 < end < 1:  # Wilson 1927: the shares that lie z standard errors, their own, from what was seen
            assert abs(right / count - end) == pytest.approx(Z * math.sqrt(end * (1 - end) / count), abs=1e-7)


def test_tangos_interval_is_the_published_one_and_mcnemars_p_is_statsmodels():
    from statsmodels.stats import contingency_tables

    # Fagerland, Lydersen and Laake 2014, table VI: airway hyper-responsiveness before and after a transplantation
    assert tango(1, 7, 21, 0.95) == pytest.approx([-0.517, -0.026], abs=5e-4)
    for gained, lost in [(4, 4), (9, 3), (1, 8), (6, 0)]:
        expected = contingency_tables.mcnemar([[0, gained], [lost, 0]], exact=False, correction=False).pvalue
        assert mcnemar(gained, lost) == pytest.approx(expected)
    assert mcnemar(0, 0) == 1 and tango(0, 0, 30, 0.95)[1] > 0.1  # no change is no certainty


@pytest.mark.parametrize(("gained", "lost"), [(0.1, 0.02), (0.25, 0.25), (0.4, 0.05)])
def test_tangos_interval_misses_the_truth_as_often_as_it_says(gained, lost):
    count, missed = 30, 0.0
    for only_first in range(count + 1):
        for only_second in range(count + 1 - only_first):
            outcome = [only_first, only_second, count - only_first - only_second]
            low, high = tango(only_first, only_second, count, 0.95)
            if not low <= gained - lost <= high:
                missed += stats.multinomial.pmf(outcome, count, [gained, lost, 1 - gained - lost])
    assert 0.02 <= missed <= 0.065


@pytest.mark.parametrize(("share", "problems"), [(0.02, 164), (0.05, 30), (0.5, 164)])
def test_intervals_of_pass_at_k_hold_the_truth_of_weak_models(share, problems):
    generator, missed, plain = np.random.default_rng(13), 0, 0
    for _ in range(1000):
        solvable = generator.random(problems) < share
        values = generator.binomial(10, 0.2 * solvable) / 10
        low, high = mean_interval(values, alone(problems), 0.95)
        missed += not low <= 0.2 * share <= high
        low, high = estimate(values, problems, 0.95).interval
        plain += not low <= 0.2 * share <= high
    assert missed / 1000 <= 0.07
    assert share == 0.5 or plain / 1000 > 0.1  # Student's t misses them


def test_the_interval_of_a_mean_is_wilsons_where_each_document_is_right_or_wrong():
    for right, count in [(72, 164), (0, 10), (1, 20), (10, 10)]:
        values = np.array([1.0] * right + [0.0] * (count - right))
        assert mean_interval(values, alone(count), 0.95) == pytest.approx(wilson(right, count, 0.95), abs=0.006)
    assert mean_interval(np.ones(5), alone(5), 0.95) is None


def test_documents_of_one_cluster_count_as_the_clusters_where_they_agree():
    right = np.repeat([1.0, 0, 1, 1, 0, 1, 0, 0, 1, 0], 4)
    clusters = np.repeat(np.arange(10), 4)
    assert design_effect(right, clusters) == pytest.approx(4, rel=0.15)
    low, high = mean_interval(right, clusters, 0.95)
    assert [low, high] == pytest.approx(wilson(5, 10, 0.95), abs=0.04)
    assert design_effect(np.zeros(40), clusters) == pytest.approx(4)
    assert design_effect(right, alone(40)) == 1


def test_a_difference_as_large_as_detectable_is_found_four_times_in_five():
    generator, shown, items = np.random.default_rng(11), 0, 60
    truth = 2.8 * 0.3 / math.sqrt(items)
    for trial in range(600):
        gap = generator.normal(truth, 0.3, items)
        shown += direction(estimate(gap, items, 0.95).interval, "above") == "better"
        if not trial:
            assert detectable(gap, items, 0.95) == pytest.approx(truth, rel=0.25)
    assert 0.75 <= shown / 600 <= 0.87
    assert detectable(np.zeros(20), 20, 0.95) is None
