"""Exact tests against counting all ways, and Holm's correction against its definition."""

from itertools import product

import numpy as np
import pytest

from scripts.evaluation.results.intervals import difference, resample
from scripts.evaluation.results.significance import exchange_test, holm, mcnemar


def test_mcnemars_p_is_that_of_every_way_the_changes_could_have_fallen():
    for gained, lost in [(0, 0), (5, 0), (6, 0), (1, 8), (4, 4), (9, 3)]:
        ways = [bin(way).count("1") for way in range(2 ** (gained + lost))]
        uneven = abs(gained - lost)
        expected = sum(abs(2 * ones - gained - lost) >= uneven for ones in ways) / len(ways)
        assert mcnemar(gained, lost) == pytest.approx(expected)
    assert mcnemar(5, 0) > 0.05 > mcnemar(6, 0)  # the fewest that can show something, as in fewest_documents


@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_the_exchange_test_finds_the_share_of_all_exchanges(shift):
    generator = np.random.default_rng(3)
    first, second = generator.random(9) + shift, generator.random(9)
    columns = np.stack([first, np.ones(9), second, np.ones(9)], axis=1)
    mean = difference(lambda sums: sums[..., 0] / sums[..., 1])
    actual = exchange_test(resample(columns, 10, 0), columns, mean, 7)
    gaps = first - second
    ways = [abs(np.dot(signs, gaps)) >= abs(gaps.sum()) - 1e-12 for signs in product((1, -1), repeat=9)]
    assert actual == pytest.approx(sum(ways) / len(ways), abs=0.015)


def test_the_exchange_test_of_a_ratio_is_right_as_often_as_it_says():
    generator, ratio, p_values = np.random.default_rng(4), difference(lambda sums: sums[..., 0] / sums[..., 1]), []
    for seed in range(200):
        size = generator.integers(20, 400, 25)
        rows = [np.stack([size * generator.lognormal(0, 0.5, 25), size], axis=1) for _ in range(2)]
        columns = np.concatenate(rows, axis=1)
        p_values.append(exchange_test(resample(columns, 2, 0), columns, ratio, seed))
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.1
    assert 0.4 <= np.mean(p_values) <= 0.6


def test_equal_models_have_p_1_and_the_smallest_p_is_not_0():
    mean = difference(lambda sums: sums[..., 0] / sums[..., 1])
    equal = np.ones((20, 4))
    assert exchange_test(resample(equal, 2, 0), equal, mean, 0) == 1
    apart = equal * [1, 1, 0, 1]
    assert exchange_test(resample(apart, 2, 0), apart, mean, 0) == pytest.approx(1e-4, rel=0.5)


def test_holms_correction():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []
