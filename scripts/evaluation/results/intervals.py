"""Intervals over documents: a bootstrap for any function of sums, closed forms for shares; how to read a difference.

    sums = resample(columns, resamples=2000, seed=content_seed(*ids))
    estimate(sums, statistic, confidence=0.95)  # {"value": 2.97, "interval": [2.81, 3.15]}

Perplexity, corpus BLEU or a mean are functions of sums over documents, so the document is the resampling unit, with all
its figures. All models are scored on the same documents and share the resamples: a difference between two models is
then paired, and what makes a document hard for both cancels out.

Bootstrap intervals are percentiles, expanded for few documents. In simulations of ratios with 10, 30 and 100 documents
they miss the truth no more often than bias-corrected and accelerated ones (BCa), which need more machinery. Of means of
values from 0 to 1, as pass@k, intervals are in closed form: of a model that solves few problems the bootstrap sees too
few of them, and misses the truth up to 60 times in 100 (benchmarks/coverage.py).
"""

import hashlib
import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from scripts.evaluation.metrics.metric import Statistic

# Probability that a difference of the size `detectable` is shown.
POWER = 0.8

# Documents of the largest variance that are added to those seen: with 10 no case of the grid of
# benchmarks/coverage.py misses the truth more than 7 times in 100 at 95%.
PSEUDO = 10

# Drawn numbers in memory at a time; bounds memory, does not change the result.
CHUNK = 1 << 21


class Resampled(NamedTuple):
    """Sums over documents: of all of them, and of each resample."""

    documents: int
    totals: np.ndarray  # [columns]
    replicates: np.ndarray  # [resamples, columns]

    def select(self, columns: list[int]) -> "Resampled":
        return Resampled(self.documents, self.totals[columns], self.replicates[:, columns])


def content_seed(*parts: str) -> int:
    """A seed derived from `parts`, e.g. from the ids of the documents that are resampled."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])


def fewest_documents(confidence: float) -> int:
    """The fewest documents for which an interval is given: 6 at 95%.

    A bootstrap interval lies within the range of the documents, and the range of n draws misses even their median with
    probability 2^(1-n).
    """
    return math.ceil(1 - math.log2(1 - confidence))


def resample(documents: np.ndarray, resamples: int, seed: int) -> Resampled:
    """Draw documents with replacement, `resamples` times, and sum each draw.

    Args:
        documents: float64 [documents, columns], one row per document.
    """
    count, columns = documents.shape
    generator = np.random.default_rng(seed)
    replicates = np.empty((resamples, columns))
    rows = max(1, CHUNK // (count * columns))
    for start in range(0, resamples, rows):
        draws = generator.integers(0, count, size=(min(rows, resamples - start), count))
        replicates[start : start + len(draws)] = documents[draws].sum(axis=1)
    return Resampled(count, documents.sum(axis=0), replicates)


def quantiles(documents: int, confidence: float) -> list[float]:
    """The quantiles of the resamples that bound the interval; for few documents, wider than the plain percentiles.

    The variance of resamples of n documents divides by n instead of n - 1, and is then taken as known. Hesterberg's
    expanded percentiles (What Teachers Should Know About the Bootstrap, 2015, section 5) correct both: the quantile
    of Student's t, here by its expansion in z (Abramowitz and Stegun 26.7.5), times sqrt(n / (n - 1)).
    """
    z, freedom = NormalDist().inv_cdf((1 + confidence) / 2), documents - 1
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    low = NormalDist().cdf(-math.sqrt(documents / freedom) * t)
    return [low, 1 - low]


def estimate(sums: Resampled, statistic: Statistic, confidence: float) -> dict:
    """`{"value": float, "interval": [low, high]}` of `statistic`, a function of sums [..., columns] → [...].

    The interval is None if there are fewer documents than `fewest_documents`.
    """
    value = float(statistic(sums.totals))
    if sums.documents < fewest_documents(confidence):
        return {"value": value, "interval": None}
    interval = np.quantile(statistic(sums.replicates), quantiles(sums.documents, confidence))
    return {"value": value, "interval": interval.tolist()}


def difference(statistic: Statistic) -> Statistic:
    """`statistic` of the first half of the columns minus that of the second, for two models side by side."""

    def of_pair(sums: np.ndarray) -> np.ndarray:
        first, second = np.split(sums, 2, axis=-1)
        return statistic(first) - statistic(second)

    return of_pair


def direction(interval: list[float] | None, better: str = "below") -> str:
    """What a difference shows; `better` is the side of zero on which the first model is the better one."""
    if interval and not interval[0] <= 0 <= interval[1]:
        return "better" if (interval[1] < 0) == (better == "below") else "worse"
    return "no difference shown"


def wilson(right: float, count: float, confidence: float) -> list[float]:
    """The interval of a share, `right` of `count` (Wilson 1927): within 0 to 1, and not a point at 0 or 1."""
    from statsmodels.stats.proportion import (
        proportion_confint,  # takes longer to import than most jobs that import this
    )

    return list(proportion_confint(right, count, alpha=1 - confidence, method="wilson"))


def mean_interval(values: np.ndarray, confidence: float) -> list[float] | None:
    """The interval of a mean of values from 0 to 1: Wilson's, for the number of right or wrong documents that tell as
    much.

    Their variance is at most that of a share, p(1 - p), which makes that number at least theirs. Estimated from few
    values that are not all 0, or not all 1, it would be too small, so it counts for as many documents as there are such
    values, and the largest variance for `PSEUDO` more. None below `fewest_documents`.

    Args:
        values: [documents].
    """
    count, mean = len(values), float(values.mean())
    if count < fewest_documents(confidence):
        return None
    largest, seen = mean * (1 - mean), int(min((values > 0).sum(), (values < 1).sum()))
    variance = (seen * float(values.var(ddof=1)) + PSEUDO * largest) / (seen + PSEUDO)
    equivalent = max(count, count * largest / variance) if variance > 0 else count
    return wilson(mean * equivalent, equivalent, confidence)


def mean_difference_interval(first: np.ndarray, second: np.ndarray, confidence: float) -> list[float] | None:
    """The interval of a paired difference of two such means, from those of each and their correlation.

    The method of variance estimates recovery (Zou and Donner 2008), of which Newcombe's for shares is a case.
    """
    first_interval, second_interval = mean_interval(first, confidence), mean_interval(second, confidence)
    if first_interval is None or second_interval is None:
        return None
    spread = float(first.std() * second.std())
    phi = float(((first - first.mean()) * (second - second.mean())).mean()) / spread if spread else 0.0
    return mover_interval(float(first.mean()), first_interval, float(second.mean()), second_interval, phi)


def mover_interval(
    first: float, interval: list[float], second: float, other_interval: list[float], correlation: float
) -> list[float]:
    """The interval of a difference from the intervals of both values, and their correlation."""
    (low, high), (other_low, other_high) = interval, other_interval

    def distance(margin: float, other_margin: float) -> float:
        return math.sqrt(max(margin**2 - 2 * correlation * margin * other_margin + other_margin**2, 0.0))

    return [
        first - second - distance(first - low, other_high - second),
        first - second + distance(high - first, second - other_low),
    ]


def median_interval(values: list[float], confidence: float) -> list[float] | None:
    """The interval of a median for any distribution: from the k-th smallest to the k-th largest value.

    Each value is below the true median with probability 1/2, so either end misses it with probability
    P(Binomial(n, 1/2) < k); k is the largest for which both together stay within 1 - confidence (David and Nagaraja,
    Order Statistics, 2003, section 7.1). None if not even the extremes do: below `fewest_documents`.
    """
    ordered, count, tail, k = sorted(values), len(values), 1, 0
    while tail / 2**count <= (1 - confidence) / 2:
        k += 1
        tail += math.comb(count, k)
    return [ordered[k - 1], ordered[-k]] if k else None


def newcombe(both: int, gained: int, lost: int, neither: int, confidence: float) -> list[float]:
    """The interval of a paired difference of shares, from Wilson's two intervals (Newcombe 1998, method 10).

    Args:
        both, gained, lost, neither: documents on which both models are right, only the first, only the second, none.
    """
    count = both + gained + lost + neither
    first, second = (both + gained) / count, (both + lost) / count
    together = both * neither - gained * lost
    together = max(together - count / 2, 0) if together > 0 else together
    margins = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    phi = together / math.sqrt(margins) if margins else 0.0
    first_interval, second_interval = (wilson(right, count, confidence) for right in (both + gained, both + lost))
    return mover_interval(first, first_interval, second, second_interval, phi)


def detectable(sums: Resampled, statistic: Statistic, confidence: float) -> float | None:
    """The smallest true difference that this many documents would show, in a share `POWER` of such comparisons.

    It is z((1 + confidence) / 2) + z(POWER) standard errors, 2.8 at 95%; the error is the spread of the resamples. None
    if there are too few documents for an interval, or the models do not differ on any.
    """
    if sums.documents < fewest_documents(confidence):
        return None
    error = float(np.std(statistic(sums.replicates))) * math.sqrt(sums.documents / (sums.documents - 1))
    normal = NormalDist()
    return (normal.inv_cdf((1 + confidence) / 2) + normal.inv_cdf(POWER)) * error or None
