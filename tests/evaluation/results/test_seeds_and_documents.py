"""Differences over seeds and documents: the closed forms at both ends, how often they are right, what more seeds do."""

import numpy as np
import pytest
from scipy import stats

from scripts.evaluation.results.comparison import (
    compare_seeds,
    p_value,
    parts_of,
)
from scripts.evaluation.results.intervals import holm


def drawn(generator, seeds, documents, of_seeds, of_documents, rest, runs=()):
    """[*runs, seeds, documents]: differences of mean 0 with these standard deviations."""
    return (
        of_seeds * generator.normal(size=(*runs, seeds, 1))
        + of_documents * generator.normal(size=(*runs, 1, documents))
        + rest * generator.normal(size=(*runs, seeds, documents))
    )


def test_where_only_seeds_differ_the_test_is_the_paired_t_test_over_seeds():
    seeds = np.random.default_rng(1).normal(0.4, 1, 6)
    compared = compare_seeds(np.tile(seeds[:, None], 20), 20, 0.95)
    expected = stats.ttest_1samp(seeds, 0)
    assert compared.p == pytest.approx(expected.pvalue)
    assert compared.interval == pytest.approx(list(expected.confidence_interval(0.95)))


def test_where_only_documents_differ_the_test_is_the_paired_t_test_over_documents():
    documents = np.random.default_rng(2).normal(0.2, 1, 40)
    compared = compare_seeds(np.tile(documents, (3, 1)), 40, 0.95)
    expected = stats.ttest_1samp(documents, 0)
    assert compared.p == pytest.approx(expected.pvalue)
    assert compared.interval == pytest.approx(list(expected.confidence_interval(0.95)))


def test_the_p_is_below_the_level_exactly_where_the_interval_leaves_zero_out():
    generator = np.random.default_rng(3)
    for _ in range(300):
        table = drawn(generator, 3, 20, 0.2, 0.5, 1) + generator.normal(0, 1)
        compared = compare_seeds(table, generator.uniform(2, 20), 0.95)
        assert (compared.p < 0.05) == (not compared.interval[0] <= 0 <= compared.interval[1])


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("deviations", [(0, 0, 1), (0.3, 1, 1), (1, 1, 1), (0.1, 0.5, 0.3), (1, 0, 0.1)])
def test_at_most_five_in_a_hundred_families_of_arms_without_an_effect_flag_one(seeds, deviations):
    generator, families, arms = np.random.default_rng(4), 400, 3
    flagged = 0
    for _ in range(families):
        # arms share the reference, so their differences are correlated, as in a real family
        runs = drawn(generator, seeds, 30, *deviations, runs=(arms + 1,))
        values = []
        for gap in runs[1:] - runs[0]:
            value, parts = float(gap.mean()), parts_of(gap, 30)
            values.append(p_value(value, parts))
        flagged += arms * min(values) < 0.05  # Holm's smallest; his own function collects garbage at each call
    assert min(holm(values)) == pytest.approx(min(1, arms * min(values)))
    assert flagged <= stats.binom.ppf(0.999, families, 0.05)
