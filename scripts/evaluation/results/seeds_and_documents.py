"""The paired difference of two ways to train, over seeds and documents, and how many more seeds it would need.

    values = document_values(columns, statistic)             # one model: [documents], their mean is its score
    compared = compare_seeds(arm - reference, 0.95)          # [seeds, documents]
    seeds_needed(arm - reference, alpha=0.05)                # 7, or None

A score differs from the next run's for two reasons: another seed trains another model, and other documents are harder.
The model of a difference is y = mean + seed + document + rest, each random (a crossed design). Its variance is that of
the seeds' means plus what the documents add to it. Each part is estimated from few values, the seeds from very few, so
each gets its own quantile of Student's t, and the squares are added (Howe, Approximate confidence limits on the mean
of X + Y, 1974). In simulations with 2 to 10 seeds and 10 to 100 documents no share of the three variances makes more
than 5 in 100 intervals miss the truth at 95%; with Satterthwaite's degrees of freedom 11 in 100 do.
"""

import math
from functools import cache
from types import ModuleType
from typing import NamedTuple

import numpy as np

from scripts.evaluation.metrics.metric import Statistic
from scripts.evaluation.results.intervals import POWER

MOST_SEEDS = 200  # more are called too many


class SeedComparison(NamedTuple):
    """A difference, its interval, and its two-sided p."""

    value: float
    interval: list[float]
    p: float


class Parts(NamedTuple):
    """The two parts of the squared standard error of a mean over seeds and documents."""

    seeds: float  # shrinks with each seed
    documents: float  # does not
    freedom: tuple[int, int]  # of both


def document_values(columns: np.ndarray, statistic: Statistic) -> np.ndarray:
    """float64 [documents]: what each document adds to a metric, so that their mean is the metric.

    The value of a document where the metric is a mean; else jackknife pseudo-values, by which any smooth function of
    sums is treated as a mean (Tukey 1958).

    Args:
        columns: float64 [documents, width], the figures of one model.
    """
    total, count = columns.sum(axis=0), len(columns)
    estimate = float(statistic(total))
    values = count * estimate - (count - 1) * statistic(total - columns)
    return values + (estimate - values.mean())


def parts_of(differences: np.ndarray) -> Parts:
    """The variance of the mean of a table [seeds, documents], from its mean squares."""
    seeds, documents = differences.shape
    mean, rows, columns = differences.mean(), differences.mean(axis=1), differences.mean(axis=0)
    rest = differences - rows[:, None] - columns + mean
    of_seeds = documents * float(((rows - mean) ** 2).sum()) / (seeds - 1)
    of_documents = seeds * float(((columns - mean) ** 2).sum()) / (documents - 1)
    of_rest = float((rest**2).sum()) / ((seeds - 1) * (documents - 1))
    count = seeds * documents
    return Parts(of_seeds / count, max(of_documents - of_rest, 0.0) / count, (seeds - 1, documents - 1))


@cache
def special() -> ModuleType:
    """Student's t; imported when first used, as it takes half of the start of programs that mostly have one seed."""
    from scipy import special

    return special


def half_width(parts: Parts, alpha: float) -> float:
    """Half of the interval that misses the truth with a probability of at most `alpha`."""
    seeds, documents = (float(special().stdtrit(freedom, 1 - alpha / 2)) for freedom in parts.freedom)
    return math.sqrt(seeds**2 * parts.seeds + documents**2 * parts.documents)


def p_value(value: float, parts: Parts) -> float:
    """The alpha whose interval ends at zero; the interval shrinks as alpha grows, so halving finds it."""
    if value == 0:
        return 1.0
    if parts.seeds + parts.documents == 0:
        return 0.0
    errors = abs(value) / math.sqrt(parts.seeds + parts.documents)
    low, high = sorted(2 * float(special().stdtr(freedom, -errors)) for freedom in parts.freedom)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if half_width(parts, middle) > abs(value) else (low, middle)
    return high


def compare_seeds(differences: np.ndarray, confidence: float) -> SeedComparison:
    """The mean of paired differences over seeds and documents, for other seeds and other documents.

    Args:
        differences: float64 [seeds, documents], at least 2 of each.
    """
    value, parts = float(differences.mean()), parts_of(differences)
    half = half_width(parts, 1 - confidence)
    return SeedComparison(value, [value - half, value + half], p_value(value, parts))


def detectable_with_seeds(differences: np.ndarray, confidence: float) -> float | None:
    """The smallest true difference that as many seeds and documents would show, in a share `POWER` of comparisons."""
    parts = parts_of(differences)
    error = math.sqrt(parts.seeds + parts.documents)
    return half_width(parts, 1 - confidence) + float(special().stdtrit(len(differences) - 1, POWER)) * error or None


def difference_in_differences(first: np.ndarray, second: np.ndarray, confidence: float) -> SeedComparison:
    """How much more the same models changed on one set of documents than on another.

    Args:
        first, second: float64 [seeds, documents of each], rows of one number of the same model.
    """
    gap = first.mean(axis=1) - second.mean(axis=1)
    value, parts = float(gap.mean()), (parts_of(first), parts_of(second))
    freedom = len(gap) - 1, min(part.freedom[1] for part in parts)
    documents = sum(part.documents for part in parts)
    both = Parts(float(gap.var(ddof=1)) / len(gap), documents, freedom)
    half = half_width(both, 1 - confidence)
    return SeedComparison(value, [value - half, value + half], p_value(value, both))


def seeds_needed(differences: np.ndarray, alpha: float) -> int | None:
    """How many seeds would show a true difference of the size seen, with probability `POWER`, at this `alpha`.

    None if more than `MOST_SEEDS`, or no number of seeds on these documents, would.
    """
    seeds, (_, documents) = len(differences), differences.shape
    value, parts = abs(float(differences.mean())), parts_of(differences)
    for number in range(seeds + 1, MOST_SEEDS + 1):
        planned = Parts(parts.seeds * seeds / number, parts.documents, (number - 1, documents - 1))
        error = math.sqrt(planned.seeds + planned.documents)
        if value >= half_width(planned, alpha) + float(special().stdtrit(number - 1, POWER)) * error:
            return number
    return None


def documents_limit(differences: np.ndarray, alpha: float) -> bool:
    """Whether with any number of seeds these documents are too few for a difference of the size seen."""
    parts = parts_of(differences)
    endless = Parts(0.0, parts.documents, parts.freedom)
    return abs(float(differences.mean())) < half_width(endless, alpha)
