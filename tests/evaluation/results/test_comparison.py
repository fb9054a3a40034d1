"""Comparisons of two models: exact p-values, faults of the sandbox, and limits of what can be detected."""

import numpy as np
import pytest

from scripts.evaluation.metrics import pass_at_k
from scripts.evaluation.metrics.exact_match import SUITE as ANSWERS
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.items import Documents


def compared(suite, *models, languages=None):
    """The comparison of models given by their items."""
    rows = [[column for item in items for column in suite.columns(item)] for items in zip(*models, strict=True)]
    names = [str(number) for number in range(len(rows))]
    documents = Documents(names, np.array(languages or ["go"] * len(rows)), np.array(rows, dtype=np.float64))
    return SuiteComparison(suite, {"d": documents}, ["a", "b", "c"][: len(models)], 0.95, 300)


def problems(*outcomes):
    return [pass_at_k.figures(list(of_problem), [1]) for of_problem in outcomes]


def test_failures_that_merely_change_their_kind_are_no_difference():
    # of 164 problems four are solved more often; a hundred others fail otherwise than before
    before = problems(*[["wrong", "wrong"]] * 164)
    after = problems(*[["passed", "wrong"]] * 4, *[["timeout", "exception"]] * 100, *[["wrong", "wrong"]] * 60)
    row = compared(pass_at_k.suite([1]), after, before).comparison("pass@1", ("d", "all"), "a", "b")
    assert (row["interval"], row["direction"]) == (None, "no difference shown")
    assert row["p"] == pytest.approx(1 / 8, abs=0.02)  # of four exchanges, all one way or the other


def test_a_fault_of_the_sandbox_leaves_nothing_to_compare():
    items = problems(["passed"], ["sandbox error"], *[["wrong"]] * 10)
    comparison = compared(pass_at_k.suite([1]), items, problems(*[["wrong"]] * 12))
    row = comparison.comparison("pass@1", ("d", "all"), "a", "b")
    assert (row["value"], row["interval"], row["direction"], row["p"]) == (None, None, "not measured", None)
    assert comparison.measure("pass@1", ("d", "all"), "b")["value"] == 0


def test_a_detectable_difference_above_1_is_not_shown_for_a_share():
    items = [{"exact_match": float(right), "f1": float(right), "strict_match": float(right)} for right in (1, 0, 0)]
    row = compared(ANSWERS, items, items[::-1]).comparison("exact_match", ("d", "all"), "a", "b")
    assert row["detectable"] is None  # six changed items of three


def test_with_a_single_language_the_row_of_all_has_that_languages_interval():
    values = np.random.default_rng(0).random(20)
    items = [{"exact_match": 0.0, "f1": float(value), "strict_match": 0.0} for value in values]
    comparison = compared(ANSWERS, items)
    assert comparison.measure("f1", ("d", "all"), "a") == comparison.measure("f1", ("d", "go"), "a")
