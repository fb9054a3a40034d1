"""Intervals against closed forms: the delta method for ratios of sums, tables of Student's t, simulated coverage."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from scripts.evaluation import statistics
from scripts.evaluation.statistics import (
    METRICS,
    content_seed,
    difference,
    estimate,
    fewest_documents,
    levels,
    resample,
)

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
    bits = estimate(sums, METRICS["bits_per_byte"], 0.95)
    value = nll.sum() / math.log(2) / size.sum()
    sd = deviation(nll / math.log(2), size)
    assert bits["value"] == pytest.approx(value)
    assert bits["interval"] == pytest.approx([value - Z * sd, value + Z * sd], abs=0.2 * sd)
    # perplexity is exp of a ratio, so its interval is exp of that ratio's
    perplexity = estimate(sums, METRICS["perplexity"], 0.95)
    mean, sd = nll.sum() / tokens.sum(), deviation(nll, tokens)
    assert np.log(perplexity["interval"]) == pytest.approx([mean - Z * sd, mean + Z * sd], abs=0.2 * sd)


def test_paired_difference_is_that_of_the_delta_method_and_narrower_than_apart():
    generator = np.random.default_rng(2)
    first = draw(1500, generator)
    second = first.copy()
    second[:, 0] *= generator.normal(0.98, 0.03, len(first))
    sums = resample(np.hstack([second, first]), 4000, 3)
    estimated = estimate(sums, difference("bits_per_byte"), 0.95)
    change = (second[:, 0] - first[:, 0]) / math.log(2)
    value, sd = change.sum() / first[:, 2].sum(), deviation(change, first[:, 2])
    assert estimated["value"] == pytest.approx(value)
    assert estimated["interval"] == pytest.approx([value - Z * sd, value + Z * sd], abs=0.2 * sd)
    apart = math.hypot(*(deviation(one[:, 0] / math.log(2), one[:, 2]) for one in (first, second)))
    assert sd < apart / 5


@pytest.mark.parametrize("documents", [8, 40])
def test_intervals_hold_the_truth_as_often_as_they_say(documents):
    generator, truth, held = np.random.default_rng(documents), 1 / math.log(2) / 4, 0
    for trial in range(400):
        sums = resample(draw(documents, generator), 500, trial)
        low, high = estimate(sums, METRICS["bits_per_byte"], 0.95)["interval"]
        held += low <= truth <= high
    assert 0.91 <= held / 400 <= 0.985  # the plain percentiles hold it 88 times in 100 with 8 documents


@pytest.mark.parametrize(("documents", "t"), [(6, 2.5706), (10, 2.2622), (30, 2.0452), (1001, 1.9623)])
def test_levels_are_those_of_students_t(documents, t):
    low, high = levels(documents, 0.95)
    assert low == pytest.approx(NormalDist().cdf(-t * math.sqrt(documents / (documents - 1))), abs=3e-4)
    assert high == 1 - low


def test_too_few_documents_have_a_value_and_no_interval():
    assert [fewest_documents(confidence) for confidence in (0.5, 0.9, 0.95, 0.99)] == [2, 5, 6, 8]
    documents = draw(6, np.random.default_rng(4))
    assert estimate(resample(documents, 100, 0), METRICS["perplexity"], 0.95)["interval"] is not None
    assert estimate(resample(documents[:5], 100, 0), METRICS["perplexity"], 0.95)["interval"] is None


def test_a_model_does_not_differ_from_itself():
    documents = draw(20, np.random.default_rng(5))
    sums = resample(np.hstack([documents, documents]), 200, 0)
    assert estimate(sums, difference("perplexity"), 0.95) == {"value": 0.0, "interval": [0.0, 0.0]}


def test_every_document_is_drawn_equally_often():
    counts = resample(np.eye(10), 4000, 9).replicates
    assert (counts.sum(axis=1) == 10).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(10), abs=0.1)
    assert counts.var(axis=0) == pytest.approx(np.full(10, 0.9), abs=0.15)  # a binomial's


def test_draws_depend_on_the_seed_and_not_on_how_many_fit_in_memory(monkeypatch):
    documents = draw(33, np.random.default_rng(6))
    whole = resample(documents, 100, 7).replicates
    assert not np.array_equal(whole, resample(documents, 100, 8).replicates)
    monkeypatch.setattr(statistics, "CHUNK", 700)
    assert np.array_equal(whole, resample(documents, 100, 7).replicates)


def test_seed_tells_where_one_part_ends():
    assert content_seed("a", "bc") != content_seed("ab", "c")
    assert content_seed("code", "all") == 16890075929636719094
