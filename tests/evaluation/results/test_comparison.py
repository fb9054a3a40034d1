"""Comparisons of two models: intervals and p that agree, clusters, faults of the sandbox, what can be detected."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from scripts.evaluation.metrics import scoring
from scripts.evaluation.metrics.metric import summarize
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.intervals import estimate
from scripts.evaluation.results.items import Documents
from scripts.evaluation.suites.bleu import SUITE as BLEU
from scripts.evaluation.suites.bleu import statistics
from scripts.evaluation.suites.completion import SUITE as COMPLETION
from scripts.evaluation.suites.perplexity import SUITE as PERPLEXITY
from scripts.evaluation.suites.qa import SUITE as ANSWERS


def compared(suite, *models, languages=None, clusters=None):
    """The comparison of models given by their items."""
    rows = [[column for item in items for column in suite.columns(item)] for items in zip(*models, strict=True)]
    names = [str(number) for number in range(len(rows))]
    documents = Documents(
        names,
        np.array(languages or ["go"] * len(rows)),
        np.array(rows, dtype=np.float64),
        np.arange(len(rows)) if clusters is None else np.array(clusters),
    )
    return SuiteComparison(suite, {"d": documents}, ["a", "b", "c"][: len(models)], 0.95)


def problems(*outcomes):
    return [scoring.pass_figures(list(of_problem), [1]) for of_problem in outcomes]


def test_a_fault_of_the_sandbox_leaves_nothing_to_compare():
    items = problems(["passed"], ["sandbox error"], *[["wrong"]] * 10)
    comparison = compared(scoring.pass_suite([1]), items, problems(*[["wrong"]] * 12))
    row = comparison.comparison("pass@1", ("d", "all"), "a", "b")
    assert (row["value"], row["interval"], row["direction"], row["p"]) == (None, None, "not measured", None)
    assert comparison.measure("pass@1", ("d", "all"), "b")["value"] == 0


def answers(rights):
    return [{"exact_match": float(right), "f1": float(right), "strict_match": float(right)} for right in rights]


def similarities(values):
    return [{"exact_match": 0.0, "f1": float(value), "strict_match": 0.0} for value in values]


def test_interval_p_and_sentence_agree_for_shares_and_for_continuous_metrics():
    generator, shown = np.random.default_rng(1), 0
    for _ in range(150):
        count, shift = int(generator.integers(6, 40)), generator.choice([0, 0.1, 0.25])
        base = generator.beta(2, 2, count)
        moved = np.clip(base + generator.normal(shift, 0.25, count), 0, 1)
        binary = answers(generator.random(count) < 0.4 + shift), answers(generator.random(count) < 0.4)
        for metric, models in (("f1", (similarities(moved), similarities(base))), ("exact_match", binary)):
            row = compared(ANSWERS, *models).comparison(metric, ("d", "all"), "a", "b")
            outside = row["interval"] is not None and not row["interval"][0] <= 0 <= row["interval"][1]
            assert outside == (row["p"] is not None and row["p"] < 0.05) == (row["direction"] != "no difference shown")
            shown += outside
    assert shown > 50


@pytest.mark.parametrize("count", [12, 24, 60])
def test_continuous_metrics_have_nearly_the_power_of_the_paired_t_test(count):
    generator, ours, peer, runs = np.random.default_rng(2), 0, 0, 200
    for _ in range(runs):
        base = generator.beta(1.5, 3, count)
        moved = np.clip(base + generator.normal(0.8 / np.sqrt(count), 0.28, count), 0, 1)
        row = compared(ANSWERS, similarities(moved), similarities(base)).comparison("f1", ("d", "all"), "a", "b")
        ours += row["direction"] == "better"
        peer += stats.ttest_rel(moved, base).pvalue < 0.05
    # t that is right for skewed differences, too, shows less where there are few
    assert -2 / count <= (ours - peer) / runs <= 0 and 0.3 < peer / runs < 0.95


def test_documents_that_vary_together_widen_the_interval_and_are_counted():
    generator = np.random.default_rng(3)
    base, shift = generator.random(40), np.repeat(generator.normal(0.1, 0.2, 10), 4)
    models = similarities(np.clip(base + shift, 0, 1)), similarities(base)
    alone = compared(ANSWERS, *models).comparison("f1", ("d", "all"), "a", "b")
    grouped = compared(ANSWERS, *models, clusters=np.repeat(range(10), 4)).comparison("f1", ("d", "all"), "a", "b")
    assert (alone["clusters"], grouped["clusters"], grouped["effective"]) == (40, 10, 10)
    widths = [row["interval"][1] - row["interval"][0] for row in (alone, grouped)]
    assert widths[1] > 1.5 * widths[0] and grouped["value"] == pytest.approx(alone["value"])
    means = compared(ANSWERS, *models, clusters=np.repeat(range(10), 4))
    gap = np.array([first["f1"] - second["f1"] for first, second in zip(*models, strict=True)])
    expected = estimate(gap.reshape(10, 4).mean(axis=1), 10, 0.95)
    assert means.comparison("f1", ("d", "all"), "a", "b")["p"] == pytest.approx(expected.p)


def completions(parsing, count=12):
    """Items of suite completion: so many of the outputs parse, and the others are blank."""
    items = []
    for number in range(count):
        written = number < parsing
        figures = dict.fromkeys(COMPLETION.figures, 0.0) | {"answer_bytes": 9, "answer_nll": 5.0 + number}
        items.append(figures | {"parses": float(written), "not_blank": float(written)})
    return items


def test_blank_completions_neither_parse_nor_fail_to():
    place = ("d", "all")
    some = compared(COMPLETION, completions(8), completions(0))
    assert some.measure("parses", place, "a")["value"] == 1.0
    assert some.measure("parses", place, "b") == {"value": None, "interval": None}
    assert some.comparison("parses", place, "a", "b")["direction"] == "not measured"
    assert compared(COMPLETION, completions(1)).measure("parses", place, "a") == {"value": 1.0, "interval": None}
    assert summarize(COMPLETION, completions(0))["parses"] is None


@pytest.mark.parametrize("count", [1, 3, 5, 6])
def test_fewer_than_six_documents_have_no_interval_in_any_metric(count):
    """Not even right or wrong answers, whose closed forms would give one of two documents."""
    right, wrong = answers([1] * count), answers([0] * count)
    for metric in ANSWERS.metrics:
        comparison = compared(ANSWERS, right, wrong)
        for against in (None, "b"):
            measured = comparison.measure(metric, ("d", "all"), "a", against)
            assert measured["value"] == 1 and (measured["interval"] is not None) == (count == 6)


def test_a_share_that_is_0_on_all_documents_has_an_interval_of_some_width():
    items = [item | {"parses": 0.0, "not_blank": 1.0} for item in completions(8)]
    none_parses = compared(COMPLETION, items).measure("parses", ("d", "all"), "a")
    nothing = compared(BLEU, [statistics("d", "a b c")] * len(items)).measure("chrf", ("d", "all"), "a")
    for measured in (none_parses, nothing):
        assert measured["value"] == 0 and measured["interval"][0] == pytest.approx(0)
        wilson = proportion_confint(0, len(items), method="wilson")[1]
        assert measured["interval"][1] == pytest.approx(wilson)


@pytest.mark.parametrize("suite", [PERPLEXITY, COMPLETION, BLEU], ids=["perplexity", "completion", "bleu"])
def test_no_interval_leaves_the_range_of_what_it_measures(suite):
    """Six skewed clusters: Student's t alone reaches below zero bits, below perplexity 1 and beyond shares of 1."""
    generator = np.random.default_rng(8)
    lowest = {"perplexity": 1.0}
    unbounded = ("perplexity", "bits_per_byte", "answer_bits_per_byte")
    cut = 0
    for _ in range(60):
        models = [[drawn_item(suite, generator) for _ in range(6)] for _ in range(2)]
        comparison = compared(suite, *models)
        for metric in suite.metrics:
            low, high = lowest.get(metric, 0.0), np.inf if metric in unbounded else 1.0
            alone = comparison.measure(metric, ("d", "all"), "a")
            difference = comparison.measure(metric, ("d", "all"), "a", "b")
            for measured, least, most in ((alone, low, high), (difference, low - high, high - low)):
                if measured["interval"] is not None:
                    assert least <= measured["interval"][0] <= measured["value"] + 1e-9
                    assert most >= measured["interval"][1] >= measured["value"] - 1e-9
                    cut += measured["interval"][0] == least or measured["interval"][1] == most
    assert cut > 10  # Student's t alone would have left the range


def drawn_item(suite, generator) -> dict:
    """An item of a suite: few documents of very different sizes, most of them all right or all wrong."""
    size = int(generator.lognormal(3, 1.5)) + 2
    if suite is PERPLEXITY:
        lines = {"lines": size, "lines_as_they_stand": int(size * (generator.random() < 0.9)), "characters": 9}
        lines["characters_saved"] = lines["lines_as_they_stand"] * 9 / size
        return {"nll": float(generator.lognormal(0, 2)), "tokens": size, "bytes": 3 * size, **lines}
    if suite is BLEU:
        reference = " ".join(generator.choice(["a", "b", "c"], size))
        return statistics(reference if generator.random() < 0.8 else "d", reference)
    right = float(generator.random() < 0.9)
    return {
        **dict.fromkeys(("completion_match", "edit_similarity", "identifier_f1", "parses"), right),
        **{"answer_nll": float(generator.lognormal(0, 2)), "answer_bytes": size, "not_blank": 1.0},
    }
