"""A stage trained with several seeds: its figures are those over seeds and documents, of one seed what they were."""

import numpy as np
import pytest

from scripts.evaluation.metrics import scoring
from scripts.evaluation.results.comparison import SuiteComparison
from scripts.evaluation.results.items import Documents
from scripts.evaluation.suites.perplexity import SUITE as PERPLEXITY
from scripts.evaluation.suites.qa import SUITE as ANSWERS

PLACE = ("d", "all")
SEEDS = {"sft": ["sft", "sft.seed2", "sft.seed3"]}
MODELS = ["base", *SEEDS["sft"]]


def compared(suite, columns, seeds=SEEDS, models=MODELS):
    """A comparison over [documents, models, width] figures."""
    documents = [str(number) for number in range(len(columns))]
    languages, rows = np.array(["go"] * len(columns)), columns.reshape(len(columns), -1)
    scored = {"d": Documents(documents, languages, rows, np.arange(len(columns)))}
    return SuiteComparison(suite, scored, models, 0.95, seeds)


def shares(generator, documents=40, models=4, effect=(0.3, 0.5, 0.7, 0.6)):
    """Figures of suite qa: every metric is right with the model's probability."""
    right = (generator.random((documents, models)) < effect[:models]).astype(float)
    return np.stack([right, right, right, np.ones_like(right)], axis=2)


def losses(generator, quantiles=(2.0, 1.1, 1.2, 1.0), documents=30):
    tokens = generator.integers(50, 200, (documents, 1)).astype(float) * np.ones(len(quantiles))
    nll = tokens * np.array(quantiles) * generator.lognormal(0, 0.2, (documents, 1))
    nll *= generator.lognormal(0, 0.05, nll.shape)
    nothing = dict.fromkeys(PERPLEXITY.figures, 0)
    rows = [[PERPLEXITY.columns(nothing | {"nll": a, "tokens": b, "bytes": 3 * b}) for a, b in zip(*pair, strict=True)]
            for pair in zip(nll, tokens, strict=True)]  # fmt: skip
    return np.array(rows)


def test_seeds_that_differ_leave_open_what_the_first_alone_would_show():
    columns = losses(np.random.default_rng(3), quantiles=(1.2, 1.1, 1.25, 1.3))
    alone = compared(PERPLEXITY, columns, None).comparison("bits_per_byte", PLACE, "sft", "base")
    over = compared(PERPLEXITY, columns).comparison("bits_per_byte", PLACE, "sft", "base")
    assert alone["direction"] == "better" and over["direction"] == "no difference shown"


def test_the_interval_has_a_width_even_where_all_seeds_are_right_on_all_documents():
    columns = shares(np.random.default_rng(5), effect=(0.5, 2, 2, 2))
    score = compared(ANSWERS, columns).measure("exact_match", PLACE, "sft")
    assert score["value"] == score["interval"][1] == 1 and score["interval"][0] < 0.96


def test_a_fault_with_one_seed_leaves_nothing_measured_and_counts_are_means_over_seeds():
    suite = scoring.pass_suite([1])

    def columns(*models):
        """Of each model the outcomes of eight problems."""
        return np.array(
            [
                [suite.columns(scoring.pass_figures([outcome], [1])) for outcome in outcomes]
                for outcomes in zip(*models, strict=True)
            ]
        )

    passed, wrong = ["passed"] * 8, ["wrong"] * 8
    score = compared(suite, columns(wrong, passed, passed, ["wrong", *passed[1:]])).score(PLACE, "sft")
    assert (score["documents"], score["passed"], score["wrong"]) == (8, 7.7, 0.3)
    assert isinstance(score["timeout"], int)
    broken = compared(suite, columns(wrong, passed, passed, ["sandbox error", *passed[1:]]))
    assert broken.measure("pass@1", PLACE, "sft")["value"] is None
    assert broken.comparison("pass@1", PLACE, "sft", "base")["direction"] == "not measured"


def test_two_stages_with_seeds_are_compared_seed_by_seed():
    columns, names = shares(np.random.default_rng(8)), ["a", "a.seed2", "b", "b.seed2"]
    seeds = {"a": names[:2], "b": names[2:]}
    row = compared(ANSWERS, columns, seeds, names).measure("exact_match", PLACE, "a", "b")
    right = columns[:, :, 0].mean(axis=0)
    assert row["seeds"] == pytest.approx([right[0] - right[2], right[1] - right[3]])
