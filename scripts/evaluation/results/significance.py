"""Correct the p values of several comparisons for their number.

holm([0.01, 0.04, 0.03])                 # [0.03, 0.06, 0.06]
"""


def holm(values: list[float]) -> list[float]:
    """p values corrected for their number (Holm 1979): below 0.05 with one of them, none of all is so by chance in more
    than 5 of 100 families."""
    from statsmodels.stats.multitest import multipletests

    return multipletests(values, method="holm")[1].tolist()
