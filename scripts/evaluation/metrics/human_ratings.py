"""Ratings by people: the share called correct, and how far raters agree.

alpha([[True, True], [True, False], [False, False]])  # 0.44; a list of ratings per rated item
"""

from collections import Counter
from itertools import chain
from statistics import fmean

from scripts.evaluation.metrics.metric import means

SUITE = means("correct")


def agreement(units: list[list]) -> float | None:
    """The share of pairs of raters that agree, averaged over rated items; None if no item has two ratings.

    Args:
        units: the ratings of each item; their number may vary.
    """
    shares = [
        sum(count * (count - 1) for count in Counter(ratings).values()) / (len(ratings) * (len(ratings) - 1))
        for ratings in units
        if len(ratings) > 1
    ]
    return fmean(shares) if shares else None


def alpha(units: list[list]) -> float | None:
    """Krippendorff's alpha for nominal ratings: 1 is full agreement, 0 what chance would give.

    One minus the observed disagreement within items over the disagreement expected of ratings drawn from all items
    (Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, section C; items with one rating do not count). None
    if all ratings are equal, as reliability is then undefined.
    """
    paired = [ratings for ratings in units if len(ratings) > 1]
    totals = Counter(chain(*paired))
    number = totals.total()
    observed = sum(
        (len(ratings) ** 2 - sum(count**2 for count in Counter(ratings).values())) / (len(ratings) - 1)
        for ratings in paired
    )
    expected = number**2 - sum(count**2 for count in totals.values())
    return 1 - (number - 1) * observed / expected if expected else None
