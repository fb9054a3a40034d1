"""Intervals and p of scores and of differences: one procedure gives both, so that they never contradict each other.

    estimate(cluster_values(sums, statistic), effective=9.3, confidence=0.95)  # Estimate(2.97, [2.81, 3.15], p=...)

A metric is a function of sums over documents. What each cluster of documents (scripts/common/units.py)
adds to it is its jackknife pseudo-value, by which any smooth function of sums is treated as a mean (for a plain mean of
documents these are the documents' own values). Interval and p of that mean are Student's t, corrected for skewness,
with one degree of freedom less than the equal clusters that they count for. Models are scored on the same documents, so
a difference is taken value by value, and what makes a document hard for both cancels out.

Two cases have their own closed form, again one for interval and p. The difference of two shares of right answers is
Tango's score interval with McNemar's test, which it inverts. A single mean of values from 0 to 1 has Wilson's interval,
within 0 to 1, for the number of right or wrong documents that tell as much. How often all of these miss the truth, on
drawn and on real files: `python -m benchmarks.coverage`, tables in docs/evaluation.md.
"""

import hashlib
import math
from functools import cache
from statistics import NormalDist
from types import ModuleType
from typing import NamedTuple

import numpy as np

from scripts.evaluation.metrics.metric import Statistic


def sums_by_cluster(columns: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """float64 [clusters, width]: the sums of the documents' columns. `columns`: float64 [documents, width]; `numbers`:
    int [documents], as `clusters` of scripts/common/units.py returns them."""
    sums = np.zeros((numbers.max() + 1, columns.shape[1]))
    np.add.at(sums, numbers, columns)
    return sums


def effective_number(sizes: np.ndarray) -> float:
    """For how many clusters of equal size these count (Kish 1965): the square of their sum over the sum of squares.

    One file with most of the bytes says little about other files, however many small ones lie beside it.
    """
    total = float(sizes.sum())
    if total:
        return total**2 / float((sizes.astype(np.float64) ** 2).sum())
    return 0.0


# Probability that a difference of the size `detectable` is shown.
POWER = 0.8

# Documents of the largest variance that are added to those seen where all values are 0 or 1: with 10 no case of the
# grid of benchmarks/coverage.py misses the truth more than 7 times in 100 at 95%.
PSEUDO = 10

EQUAL = 1e-9  # relative difference of values that are equal but for rounding


class Estimate(NamedTuple):
    """A value, its interval, and the two-sided p of its being zero: below 1 - confidence exactly if the interval leaves
    zero out."""

    value: float
    interval: list[float]
    p: float


def content_seed(*parts: str) -> int:
    """A seed derived from `parts`, e.g. from the ids of documents."""
    return int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest()[:8])


@cache
def special() -> ModuleType:
    """Student's t; imported when first used, as it takes a good part of the start of programs that need none."""
    from scipy import special

    return special


def fewest_clusters(confidence: float) -> int:
    """The fewest clusters for which an interval is given: 6 at 95%.

    If a difference had either sign with equal chance, all n of them would have the same one with probability 2^(1-n).
    """
    return math.ceil(1 - math.log2(1 - confidence))


def cluster_values(sums: np.ndarray, statistic: Statistic) -> np.ndarray:
    """float64 [clusters]: what each cluster adds to a metric, so that their mean is the metric.

    These are jackknife pseudo-values (Tukey 1958). Leaving out whole clusters gives the variance known as CR3, which is
    not too small with few clusters (MacKinnon, Nielsen and Webb 2023).

    Args:
        sums: float64 [clusters, width], the figures of one model summed over each cluster.
    """
    total, count = sums.sum(axis=0), len(sums)
    value = float(statistic(total))
    values = count * value - (count - 1) * statistic(total - sums)
    return values + (value - values.mean())


def standard_error(values: np.ndarray, freedom: float) -> float:
    """Of the mean of values, one a cluster.

    Clusters that all differ by the same amount have no spread. They prove no more than that many throws of a coin that
    fall alike, so the error is then the one with a p of 2^(1-clusters).
    """
    count, mean = len(values), abs(float(values.mean()))
    if np.ptp(values) <= EQUAL * mean:
        return mean / float(special().stdtrit(freedom, 1 - 2.0**-count))
    return float(values.std(ddof=1)) / math.sqrt(count)


def degrees_of_freedom(effective: float) -> float:
    """Of Student's t, for clusters that count for so many equal ones; at least 1."""
    return max(effective - 1, 1.0)


# By how much a sample's skewness is taken larger than it looks, as few values show too little of it. With 1.25 the
# interval of 12 or more log-normal values misses the truth at most 7 times in 100 at 95% (benchmarks/coverage.py).
SKEW_SEEN = 1.25


class Skewed(NamedTuple):
    """Student's t of a mean of skewed values, and the transformation that makes its distribution symmetric (Hall 1992).

    Attributes:
        skew: the values' skewness over the square root of their number.
    """

    skew: float

    def symmetric(self, t: float) -> float:
        """The transformed t: an increasing function of it."""
        a = self.skew
        return t + a * t**2 / 3 + a**2 * t**3 / 27 + a / 6

    def inverse(self, symmetric: float) -> float:
        """The t that is transformed to this value."""
        a = self.skew
        if abs(a) < EQUAL:
            return symmetric
        return 3 / a * (float(np.cbrt(1 + a * (symmetric - a / 6))) - 1)


def skewed(values: np.ndarray, effective: float) -> Skewed:
    """Of values, one a cluster, that count for so many equal ones; of fewer than 3, and of equal ones, nothing is
    known."""
    count, spread = len(values), float(values.std())
    if count < 3 or spread <= EQUAL * abs(float(values.mean())):
        return Skewed(0.0)
    raw = float(((values - values.mean()) ** 3).mean()) / spread**3
    unbiased = raw * math.sqrt(count * (count - 1)) / (count - 2)
    return Skewed(SKEW_SEEN * unbiased / math.sqrt(max(effective, 1.0)))


def estimate(values: np.ndarray, effective: float, confidence: float) -> Estimate:
    """The mean of values, one a cluster, with its interval and p. `values`: float64 [clusters], at least 2;
    `effective`: for how many equal clusters they count.

    The interval holds all means that Student's t does not reject, or that t corrected for skewness does not: t alone
    misses skewed differences 10 to 15 times in 100, the correction alone symmetric ones.
    """
    value, freedom = float(values.mean()), degrees_of_freedom(effective)
    error = standard_error(values, freedom)
    if error == 0:
        return Estimate(value, [value, value], 1.0)  # all values are zero
    limit, skew = float(special().stdtrit(freedom, (1 + confidence) / 2)), skewed(values, effective)
    low = value - max(limit, skew.inverse(limit)) * error
    high = value - min(-limit, skew.inverse(-limit)) * error
    t = value / error
    p = 2 * float(special().stdtr(freedom, -min(abs(t), abs(skew.symmetric(t)))))
    return Estimate(value, [low, high], p)


def detectable(values: np.ndarray, effective: float, confidence: float) -> float | None:
    """The smallest true difference that as many clusters would show, in a share `POWER` of such comparisons.

    None if the models do not differ on any.
    """
    freedom = degrees_of_freedom(effective)
    errors = special().stdtrit(freedom, (1 + confidence) / 2) + special().stdtrit(freedom, POWER)
    return float(errors) * standard_error(values, freedom) or None


def direction(interval: list[float] | None, better: str = "below") -> str:
    """What a difference shows; `better` is the side of zero on which the first model is the better one."""
    if interval and not interval[0] <= 0 <= interval[1]:
        if (interval[1] < 0) == (better == "below"):
            return "better"
        return "worse"
    return "no difference shown"


def wilson(right: float, count: float, confidence: float) -> list[float]:
    """The interval of a share, `right` of `count` (Wilson 1927): within 0 to 1, and not a point at 0 or 1."""
    from statsmodels.stats.proportion import (
        proportion_confint,  # takes longer to import than most jobs that import this
    )

    return list(proportion_confint(right, count, alpha=1 - confidence, method="wilson"))


def mean_interval(values: np.ndarray, numbers: np.ndarray, confidence: float) -> list[float] | None:
    """The interval of a mean of values from 0 to 1: Wilson's, for the number of right or wrong documents that tell as
    much.

    Their variance is at most that of a share, p(1 - p), which makes that number at least theirs. Where most values are
    0 or 1, the variance of the few others would be too small an estimate, so the largest variance counts for up to
    `PSEUDO` documents more. Documents of the same cluster tell less: the number shrinks as `design_effect` says. None
    below `fewest_clusters` documents.

    Args:
        values: float64 [documents].
        numbers: int [documents], the cluster of each.
    """
    count, mean = len(values), float(values.mean())
    if count < fewest_clusters(confidence):
        return None
    largest, inside = mean * (1 - mean), float(((values > 0) & (values < 1)).mean())
    seen, more = int(min((values > 0).sum(), (values < 1).sum())), PSEUDO * (1 - inside)
    variance = (seen * float(values.var(ddof=1)) + more * largest) / (seen + more)
    equivalent = max(count, count * largest / variance) if variance > 0 else count
    equivalent /= design_effect(values, numbers)
    return wilson(mean * equivalent, equivalent, confidence)


def design_effect(values: np.ndarray, numbers: np.ndarray) -> float:
    """How many times larger the variance of the mean is by clusters than by single documents, at least 1 (Kish 1965).

    Where all values are equal, so that neither is known: documents over the clusters that they count for.
    """
    if len(set(numbers.tolist())) == len(values):
        return 1.0
    sums = sums_by_cluster(np.stack([values, np.ones(len(values))], axis=1), numbers)
    single = float(values.var(ddof=1)) / len(values)
    if single == 0:
        return len(values) / effective_number(sums[:, 1])
    by_cluster = cluster_values(sums, lambda totals: totals[..., 0] / totals[..., 1])
    return max(1.0, float(by_cluster.var(ddof=1)) / len(by_cluster) / single)


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided p of a difference of paired shares (McNemar 1947): the score test, without a correction.

    It misses at most 6 times in 100 at 5% with 12 or more documents; the exact test misses less often and shows less
    (Fagerland, Lydersen and Laake 2013).
    """
    if gained == lost:
        return 1.0
    return 2 * NormalDist().cdf(-abs(gained - lost) / math.sqrt(gained + lost))


def tango(gained: int, lost: int, count: int, confidence: float) -> list[float]:
    """The interval of a paired difference of shares (Tango 1998): all differences that the score test does not reject.

    The test of zero is `mcnemar`, so that both agree.

    Args:
        gained, lost: documents on which only the first model is right, and only the second.
        count: all documents.
    """
    from scipy.optimize import brentq

    limit, value = NormalDist().inv_cdf((1 + confidence) / 2), (gained - lost) / count

    def errors(difference: float) -> float:
        """By how many standard errors, those of that true difference, the one seen lies above it."""
        linear = (2 * count - gained + lost) * difference - gained - lost
        root = math.sqrt(max(linear**2 + 8 * count * lost * difference * (1 - difference), 0.0))
        only_second = (root - linear) / (4 * count)  # its most likely share
        variance = count * (2 * only_second + difference * (1 - difference))
        # without variance any gap is endless; a large number serves the search as well
        return (gained - lost - count * difference) / math.sqrt(max(variance, 1e-18))

    low, high, edge = -1.0, 1.0, 1e-12
    if value > -1:
        low = brentq(lambda end: errors(end) - limit, -1 + edge, value)
    if value < 1:
        high = brentq(lambda end: errors(end) + limit, value, 1 - edge)
    return [low, high]


def median_interval(values: list[float], confidence: float) -> list[float] | None:
    """The interval of a median for any distribution: from the k-th smallest to the k-th largest value.

    Each value is below the true median with probability 1/2, so either end misses it with probability
    P(Binomial(n, 1/2) < k); k is the largest for which both together stay within 1 - confidence (David and Nagaraja,
    Order Statistics, 2003, section 7.1). None if not even the extremes do: below `fewest_clusters`.
    """
    ordered, count, tail, k = sorted(values), len(values), 1, 0
    while tail / 2**count <= (1 - confidence) / 2:
        k += 1
        tail += math.comb(count, k)
    if k:
        return [ordered[k - 1], ordered[-k]]
    return None


def holm(values: list[float]) -> list[float]:
    """p values corrected for their number (Holm 1979): below 0.05 with one of them, none of all is so by chance in more
    than 5 of 100 families."""
    from statsmodels.stats.multitest import multipletests

    return multipletests(values, method="holm")[1].tolist()


def correct(rows: list[dict], confidence: float, unknown: str) -> None:
    """Give comparisons their p corrected for all of them as `holm`, None without a p; what it does not show is unknown.
    `unknown`: the `direction` of a comparison that the corrected p does not show, whatever its own interval says."""
    measured = [row for row in rows if row["p"] is not None]
    for row in rows:
        row["holm"] = None
    for row, p in zip(measured, holm([row["p"] for row in measured]), strict=True):
        row["holm"] = p
        if p > 1 - confidence:
            corrected = unknown
            if row["p"] <= 1 - confidence:
                corrected += f" after correction for {len(measured)} comparisons"
            row["direction"] = corrected
