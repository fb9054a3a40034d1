"""Tests of differences between two models on the same items: exact, paired, and corrected for their number.

mcnemar(gained=9, lost=1)                # 0.021
holm([0.01, 0.04, 0.03])                 # [0.03, 0.06, 0.06]
"""

import numpy as np

from scripts.evaluation.metrics.metric import Statistic
from scripts.evaluation.results.intervals import CHUNK, Resampled

# Random exchanges of a permutation test; the smallest p is 1 in one more.
EXCHANGES = 9_999


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact p (McNemar): how often a fair coin splits the changed documents at least as unevenly."""
    from statsmodels.stats import contingency_tables  # seconds, which not every module that imports this one needs

    return float(contingency_tables.mcnemar([[0, gained], [lost, 0]], exact=True).pvalue)


def exchange_test(sums: Resampled, columns: np.ndarray, statistic: Statistic, seed: int) -> float:
    """Two-sided p of a difference: how often it is as large if each document's models are exchanged at random.

    Exact for any metric up to the number of exchanges drawn, and makes no assumption about documents (Fisher's
    permutation test for pairs).

    Args:
        sums: over the documents, of two models side by side.
        columns: float64 [documents, columns of both].
        statistic: the difference.
    """
    half = columns.shape[1] // 2
    gap = columns[:, half:] - columns[:, :half]
    gap = np.concatenate([gap, -gap], axis=1)[(gap != 0).any(axis=1)]
    observed, as_large = abs(float(statistic(sums.totals))), 0
    generator, rows = np.random.default_rng(seed), max(1, CHUNK // max(len(gap), 1))
    for start in range(0, EXCHANGES, rows):
        exchanged = generator.integers(0, 2, size=(min(rows, EXCHANGES - start), len(gap))).astype(np.float64)
        differences = np.abs(statistic(sums.totals + exchanged @ gap))
        as_large += int(np.count_nonzero(differences >= observed * (1 - 1e-9)))
    return (1 + as_large) / (1 + EXCHANGES)


def holm(values: list[float]) -> list[float]:
    """p values corrected for their number (Holm 1979): below 0.05 with one of them, none of all is so by chance in more
    than 5 of 100 families."""
    from statsmodels.stats.multitest import multipletests

    return multipletests(values, method="holm")[1].tolist()
