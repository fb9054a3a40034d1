"""Intervals over items: a bootstrap for any function of sums, closed forms for shares; what a comparison shows.

Perplexity, corpus BLEU or a mean are functions of sums over items, so an item is what is drawn anew, with all its
figures. All models are scored on the same items and every resample serves all of them: a difference between two models
is then paired, and what makes an item hard for both cancels out.

Bootstrap intervals are percentiles, expanded for few items. In simulations of ratios with 10, 30 and 100 documents
they miss the truth no more often than bias-corrected and accelerated ones (BCa), which need more machinery. Where each
item is right or wrong, the bootstrap of a model that is always right is a point, so there intervals are in closed form.
"""

import hashlib
import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from scripts.evaluation.metrics.metric import Statistic

# How often a difference of the size `detectable` would be found.
POWER = 0.8

# Drawn numbers in memory at a time; it bounds memory and does not show in the result.
CHUNK = 1 << 21


class Resampled(NamedTuple):
    """Sums over documents: of all of them, and of each resample."""

    documents: int
    totals: np.ndarray  # [columns]
    replicates: np.ndarray  # [resamples, columns]

    def select(self, columns: list[int]) -> "Resampled":
        return Resampled(self.documents, self.totals[columns], self.replicates[:, columns])


def content_seed(*parts: str) -> int:
    """A seed that is a function of `parts`, e.g. of the ids of the documents that are resampled."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])


def fewest_documents(confidence: float) -> int:
    """The fewest documents that can carry an interval at all: 6 at 95%.

    No bootstrap interval leaves the range of the documents, and the range of n draws misses even their median with
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
        drawn = generator.integers(0, count, size=(min(rows, resamples - start), count))
        replicates[start : start + len(drawn)] = documents[drawn].sum(axis=1)
    return Resampled(count, documents.sum(axis=0), replicates)


def levels(documents: int, confidence: float) -> list[float]:
    """The quantiles of the resamples that bound the interval: for few documents, wider ones than the plain percentiles.

    Resampling n documents spreads as if dividing by n instead of n - 1, and takes that spread for known. Hesterberg's
    expanded percentiles (What Teachers Should Know About the Bootstrap, 2015, section 5) put both right: the quantile
    of Student's t, here by its expansion in z (Abramowitz and Stegun 26.7.5), times sqrt(n / (n - 1)).
    """
    z, freedom = NormalDist().inv_cdf((1 + confidence) / 2), documents - 1
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    low = NormalDist().cdf(-math.sqrt(documents / freedom) * t)
    return [low, 1 - low]


def estimate(sums: Resampled, statistic: Statistic, confidence: float) -> dict:
    """`{"value": float, "interval": [low, high]}` of `statistic`, a function of sums [..., columns] → [...].

    The interval is None where there are fewer documents than `fewest_documents`.
    """
    value = float(statistic(sums.totals))
    if sums.documents < fewest_documents(confidence):
        return {"value": value, "interval": None}
    interval = np.quantile(statistic(sums.replicates), levels(sums.documents, confidence))
    return {"value": value, "interval": interval.tolist()}


def difference(statistic: Statistic) -> Statistic:
    """`statistic` of the first half of the columns less that of the second, of two models side by side."""

    def apart(sums: np.ndarray) -> np.ndarray:
        first, second = np.split(sums, 2, axis=-1)
        return statistic(first) - statistic(second)

    return apart


def reading(interval: list[float] | None, better: str = "below") -> str:
    """What a difference shows, `better` being the side of zero where the first model is the better one."""
    if interval and not interval[0] <= 0 <= interval[1]:
        return "better" if (interval[1] < 0) == (better == "below") else "worse"
    return "no difference shown"


def wilson(right: int, count: int, confidence: float) -> list[float]:
    """The interval of a share, `right` of `count` (Wilson 1927): it stays within 0 to 1 and is no point at its ends."""
    z, share = NormalDist().inv_cdf((1 + confidence) / 2), right / count
    middle = share + z * z / (2 * count)
    half = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    scale = 1 + z * z / count
    return [max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)]


def median_interval(values: list[float], confidence: float) -> list[float] | None:
    """The interval of a median, whatever the distribution, between the k-th smallest and the k-th largest value.

    Each value is below the true median with probability 1/2, so either end misses it with probability
    P(Binomial(n, 1/2) < k); k is the largest for which both together stay within 1 - confidence (David and Nagaraja,
    Order Statistics, 2003, section 7.1). None where not even the extremes do: below `fewest_documents`.
    """
    ordered, count, tail, k = sorted(values), len(values), 1, 0
    while tail / 2**count <= (1 - confidence) / 2:
        k += 1
        tail += math.comb(count, k)
    return [ordered[k - 1], ordered[-k]] if k else None


def newcombe(both: int, gained: int, lost: int, neither: int, confidence: float) -> list[float]:
    """The interval of a paired difference of shares, made of Wilson's two (Newcombe 1998, method 10).

    Args:
        both, gained, lost, neither: items on which both models are right, only the first, only the second, none.
    """
    count = both + gained + lost + neither
    ours, theirs = (both + gained) / count, (both + lost) / count
    (low, high), (other_low, other_high) = (wilson(right, count, confidence) for right in (both + gained, both + lost))
    together = both * neither - gained * lost
    together = max(together - count / 2, 0) if together > 0 else together
    margins = (both + gained) * (lost + neither) * (both + lost) * (gained + neither)
    phi = together / math.sqrt(margins) if margins else 0.0

    def apart(one: float, other: float) -> float:
        return math.sqrt(max(one**2 - 2 * phi * one * other + other**2, 0.0))

    return [
        ours - theirs - apart(ours - low, other_high - theirs),
        ours - theirs + apart(high - ours, theirs - other_low),
    ]


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact p (McNemar): how often a fair coin splits the items that changed at least as unevenly."""
    changed = gained + lost
    tail = sum(math.comb(changed, fewer) for fewer in range(min(gained, lost) + 1)) / 2**changed
    return min(1.0, 2 * tail)


def detectable(sums: Resampled, statistic: Statistic, confidence: float) -> float | None:
    """The smallest true difference that this many items would show, in `POWER` of such comparisons.

    It is z((1 + confidence) / 2) + z(POWER) standard errors, 2.8 at 95%; the error is the spread of the resamples. None
    where there are too few items for an interval, or no item tells the models apart.
    """
    if sums.documents < fewest_documents(confidence):
        return None
    error = float(np.std(statistic(sums.replicates))) * math.sqrt(sums.documents / (sums.documents - 1))
    normal = NormalDist()
    return (normal.inv_cdf((1 + confidence) / 2) + normal.inv_cdf(POWER)) * error or None
