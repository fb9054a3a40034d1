"""Agreement of raters and Krippendorff's alpha against published examples."""

import pytest

from scripts.evaluation.metrics.human_ratings import agreement, alpha


def columns(*raters: str) -> list[list[str]]:
    """Units of ratings from a line per rater, a dot being none."""
    units = zip(*(line.split() for line in raters), strict=True)
    return [[rating for rating in unit if rating != "."] for unit in units]


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        # Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, sections A, B and C
        (columns("0 1 0 0 0 0 0 0 1 0", "1 1 1 0 0 1 0 0 0 0"), 0.095),
        (columns("a a b b d c c c e d d a", "b a b b b c c c e d d d"), 0.692),
        (
            columns(
                *("1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3"),
                *(". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."),
            ),
            0.743,
        ),
        (columns("1 0 1 0", "1 0 1 0"), 1),
        (columns("1 0", "0 1"), -0.5),  # 1 - (4 - 1) * 4 / (16 - 8)
    ],
)
def test_alpha_equals_krippendorffs_published_examples(units, expected):
    assert alpha(units) == pytest.approx(expected, abs=5e-4)


def test_agreement_is_the_share_of_agreeing_pairs_of_raters_and_none_without_a_pair():
    assert agreement(columns("1 0 1 1", "1 0 0 1")) == 0.75
    assert agreement([[True, True, False]]) == pytest.approx(1 / 3)
    assert agreement([[True], [False]]) is None and alpha([[True], [False]]) is None
    assert agreement([[True, True]] * 3) == 1 and alpha([[True, True]] * 3) is None  # nothing varies
