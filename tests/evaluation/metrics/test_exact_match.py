"""scripts/evaluation/metrics/scoring.py: SQuAD's definitions in English, CMRC's in Chinese, and a strict match for
code."""

import random

import pytest

from scripts.evaluation.metrics.scoring import exact_match, f1, is_chinese, strict_match


def longest_common_run(first: list[str], second: list[str]) -> int:
    """By trying all of them."""
    runs = {tuple(first[i:j]) for i in range(len(first)) for j in range(i + 1, len(first) + 1)}
    return max(
        (len(run) for run in runs for k in range(len(second)) if tuple(second[k : k + len(run)]) == run), default=0
    )


# (prediction, reference, EM, F1), worked out by hand from Rajpurkar et al. 2016
@pytest.mark.parametrize(
    ("prediction", "reference", "exact", "score"),
    [
        ("The Norman conquest.", "norman conquest", True, 1.0),
        ("in the 10th and 11th centuries", "10th and 11th centuries", False, 8 / 9),
        ("a cat sat on the mat", "the cat", False, 2 * (1 / 4) * 1 / (1 / 4 + 1)),
        ("the the cat cat", "cat", False, 2 * (1 / 2) * 1 / (1 / 2 + 1)),
        ("dog", "cat", False, 0.0),
        ("", "cat", False, 0.0),
        ("the", "", True, 1.0),
        ("Ｑｕｉｃｋ　Ｓｏｒｔ", "quick sort", True, 1.0),
        ("STRASSE", "straße", True, 1.0),
    ],
)
def test_english_answers_score_as_squad_defines(prediction, reference, exact, score):
    assert exact_match(prediction, reference) is exact
    assert f1(prediction, reference) == pytest.approx(score)


# worked out by hand from Cui et al. 2019: units are characters, F1 over the longest common run
@pytest.mark.parametrize(
    ("prediction", "reference", "exact", "score"),
    [
        ("《快速排序》。", "快速排序", True, 1.0),
        ("是快速排序算法", "快速排序", False, 2 * 4 / (7 + 4)),
        ("快排速序", "快速排序", False, 2 * 1 / 8),
        ("排序", "归并查找", False, 0.0),
        ("", "快速排序", False, 0.0),
        ("使用 Python 语言", "Python语言", False, 2 * 3 / (5 + 3)),
        ("用 python 语言！", "用Python语言", True, 1.0),
    ],
)
def test_chinese_answers_score_as_cmrc_defines(prediction, reference, exact, score):
    assert is_chinese(reference)
    assert exact_match(prediction, reference) is exact
    assert f1(prediction, reference) == pytest.approx(score)


def test_chinese_f1_is_that_of_the_longest_common_run_on_random_answers():
    chance = random.Random(3)
    for _ in range(300):
        first, second = ("".join(chance.choices("排序算法快", k=chance.randint(1, 9))) for _ in range(2))
        run = longest_common_run(list(first), list(second))
        assert f1(first, second) == pytest.approx(2 * run / (len(first) + len(second)))


@pytest.mark.parametrize(
    ("prediction", "reference", "strict"),
    [
        ("C++", "C++", True),
        ("C++", "C", False),
        ("a==b", "a=b", False),
        ("return  x\n", "return x", True),
        ("None", "none", False),
        ("Ｃ＋＋", "C++", True),
        ("指针。", "指针", False),
    ],
)
def test_strict_match_keeps_the_symbols_of_code(prediction, reference, strict):
    assert strict_match(prediction, reference) is strict


@pytest.mark.parametrize("text", ["\x00", "🙂" * 3, "\ud800", "，。", "a" * 20_000, "中" * 2_000])
def test_any_text_matches_itself(text):
    assert exact_match(text, text)
    assert strict_match(text, text)
