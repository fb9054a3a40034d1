"""Intervals against closed forms: the delta method for ratios of sums, tables of Student's t, simulated coverage."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from scripts.evaluation.metrics.perplexity import SUITE
from scripts.evaluation.results import intervals
from scripts.evaluation.results.intervals import (
    content_seed,
    detectable,
    difference,
    direction,
    estimate,
    fewest_documents,
    mean_difference_interval,
    mean_interval,
    newcombe,
    quantiles,
    resample,
    wilson,
)

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


def test_interval_of_many_documents_is_that_of_the_delta_method():
    documents = draw(1500, np.random.default_rng(0))
    nll, tokens, size = documents.T
    sums = resample(documents, 4000, 1)
    bits = estimate(sums, BITS, 0.95)
    value = nll.sum() / math.log(2) / size.sum()
    sd = deviation(nll / math.log(2), size)
    assert bits["value"] == pytest.approx(value)
    assert bits["interval"] == pytest.approx([value - Z * sd, value + Z * sd], abs=0.2 * sd)
    # perplexity is exp of a ratio, so its interval is exp of that ratio's
    perplexity = estimate(sums, PERPLEXITY, 0.95)
    mean, sd = nll.sum() / tokens.sum(), deviation(nll, tokens)
    assert np.log(perplexity["interval"]) == pytest.approx([mean - Z * sd, mean + Z * sd], abs=0.2 * sd)


def test_paired_difference_is_that_of_the_delta_method_and_narrower_than_apart():
    generator = np.random.default_rng(2)
    first = draw(1500, generator)
    second = first.copy()
    second[:, 0] *= generator.normal(0.98, 0.03, len(first))
    sums = resample(np.hstack([second, first]), 4000, 3)
    estimated = estimate(sums, difference(BITS), 0.95)
    change = (second[:, 0] - first[:, 0]) / math.log(2)
    value, sd = change.sum() / first[:, 2].sum(), deviation(change, first[:, 2])
    assert estimated["value"] == pytest.approx(value)
    assert estimated["interval"] == pytest.approx([value - Z * sd, value + Z * sd], abs=0.2 * sd)
    apart = math.hypot(*(deviation(columns[:, 0] / math.log(2), columns[:, 2]) for columns in (first, second)))
    assert sd < apart / 5


@pytest.mark.parametrize("documents", [8, 40])
def test_intervals_hold_the_truth_as_often_as_they_say(documents):
    generator, truth, held = np.random.default_rng(documents), 1 / math.log(2) / 4, 0
    for trial in range(400):
        sums = resample(draw(documents, generator), 500, trial)
        low, high = estimate(sums, BITS, 0.95)["interval"]
        held += low <= truth <= high
    assert 0.91 <= held / 400 <= 0.985  # the plain percentiles hold it 88 times in 100 with 8 documents


@pytest.mark.parametrize(("documents", "t"), [(6, 2.5706), (10, 2.2622), (30, 2.0452), (1001, 1.9623)])
def test_levels_are_those_of_students_t(documents, t):
    low, high = quantiles(documents, 0.95)
    assert low == pytest.approx(NormalDist().cdf(-t * math.sqrt(documents / (documents - 1))), abs=3e-4)
    assert high == 1 - low


def test_too_few_documents_have_a_value_and_no_interval():
    assert [fewest_documents(confidence) for confidence in (0.5, 0.9, 0.95, 0.99)] == [2, 5, 6, 8]
    documents = draw(6, np.random.default_rng(4))
    assert estimate(resample(documents, 100, 0), PERPLEXITY, 0.95)["interval"] is not None
    assert estimate(resample(documents[:5], 100, 0), PERPLEXITY, 0.95)["interval"] is None


def test_a_model_does_not_differ_from_itself():
    documents = draw(20, np.random.default_rng(5))
    sums = resample(np.hstack([documents, documents]), 200, 0)
    assert estimate(sums, difference(PERPLEXITY), 0.95) == {"value": 0.0, "interval": [0.0, 0.0]}


def test_every_document_is_drawn_equally_often():
    counts = resample(np.eye(10), 4000, 9).replicates
    assert (counts.sum(axis=1) == 10).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(10), abs=0.1)
    assert counts.var(axis=0) == pytest.approx(np.full(10, 0.9), abs=0.15)  # a binomial's


def test_draws_depend_on_the_seed_and_not_on_how_many_fit_in_memory(monkeypatch):
    documents = draw(33, np.random.default_rng(6))
    draws = resample(documents, 100, 7).replicates
    assert not np.array_equal(draws, resample(documents, 100, 8).replicates)
    monkeypatch.setattr(intervals, "CHUNK", 700)
    assert np.array_equal(draws, resample(documents, 100, 7).replicates)


def test_the_seed_of_several_texts_depends_on_where_each_ends():
    assert content_seed("a", "bc") != content_seed("ab", "c")
    assert content_seed("code", "all") == 16890075929636719094


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


def test_newcombes_interval_is_the_published_one_and_holds_the_truth_with_few_changes():
    # Fagerland, Lydersen and Laake 2014: airway hyper-responsiveness before and after a transplantation
    assert newcombe(1, 1, 7, 12, 0.95) == pytest.approx([-0.507, -0.026], abs=5e-4)
    assert newcombe(8, 0, 0, 2, 0.95)[1] == -newcombe(8, 0, 0, 2, 0.95)[0] > 0.1  # no change is no certainty
    generator, held = np.random.default_rng(12), 0
    for both, gained, lost, neither in generator.multinomial(30, [0.4, 0.1, 0.02, 0.48], 1000).tolist():
        low, high = newcombe(both, gained, lost, neither, 0.95)
        held += low <= 0.08 <= high
    assert 0.93 <= held / 1000 <= 0.97


@pytest.mark.parametrize(("share", "problems"), [(0.02, 164), (0.05, 30), (0.5, 164)])
def test_intervals_of_pass_at_k_hold_the_truth_of_weak_models(share, problems):
    generator, missed, replaced = np.random.default_rng(13), 0, 0
    for trial in range(1000):
        solvable = generator.random(problems) < share
        values = generator.binomial(10, 0.2 * solvable) / 10
        low, high = mean_interval(values, 0.95)
        missed += not low <= 0.2 * share <= high
        if trial < 200:
            sums = resample(np.stack([values, np.ones(problems)], axis=1), 200, trial)
            low, high = estimate(sums, lambda columns: columns[..., 0] / columns[..., 1], 0.95)["interval"]
            replaced += not low <= 0.2 * share <= high
    assert missed / 1000 <= 0.07
    assert share == 0.5 or replaced / 200 > 0.1  # the bootstrap misses them


def test_the_interval_of_a_mean_is_wilsons_where_each_document_is_right_or_wrong():
    for right, count in [(72, 164), (0, 10), (1, 20), (10, 10)]:
        values = np.array([1.0] * right + [0.0] * (count - right))
        assert mean_interval(values, 0.95) == pytest.approx(wilson(right, count, 0.95), abs=0.006)
    assert mean_interval(np.ones(5), 0.95) is None


def test_the_difference_of_means_is_newcombes_where_each_document_is_right_or_wrong():
    first, second = (
        np.array(outcomes, dtype=float) for outcomes in ([1] * 60 + [0] * 40, [1] * 50 + [0] * 45 + [1] * 5)
    )
    expected = newcombe(50, 10, 5, 35, 0.95)
    assert mean_difference_interval(first, second, 0.95) == pytest.approx(expected, abs=0.02)


def test_a_difference_as_large_as_detectable_is_found_four_times_in_five():
    generator, shown, items = np.random.default_rng(11), 0, 60
    truth = 2.8 * 0.3 / math.sqrt(items)
    mean = difference(lambda sums: sums[..., 0] / sums[..., 1])
    for trial in range(300):
        columns = np.stack([generator.normal(truth, 0.3, items), np.ones(items), np.zeros(items), np.ones(items)], 1)
        sums = resample(columns, 300, trial)
        shown += direction(estimate(sums, mean, 0.95)["interval"], "above") == "better"
        if not trial:
            assert detectable(sums, mean, 0.95) == pytest.approx(truth, rel=0.25)
    assert 0.72 <= shown / 300 <= 0.88


def test_nothing_is_detectable_with_few_items_or_where_none_differs():
    equal_items = resample(np.ones((20, 4)), 100, 0)
    mean = difference(lambda sums: sums[..., 0] / sums[..., 1])
    assert detectable(equal_items, mean, 0.95) is None
    assert detectable(resample(np.random.default_rng(0).random((5, 4)), 100, 0), mean, 0.95) is None
