"""The page's section on what the problems share with the training data."""

import json
import re
import shutil

import pytest

from scripts.experiment.layout import Layout
from scripts.report.content.wording import contamination
from scripts.report.page import render
from tests.evaluation.synthetic import dump


def test_the_page_shows_scores_with_and_without_what_overlaps(html, page):
    text = " ".join("".join(page.text).split())
    assert "5 of 30 problems share 10 words in a row with the training data. 1 could not be checked" in text
    section = html[html.index("Contamination</h2>") : html.index("Datasets</h2>")]
    shown = " ".join(re.sub("<[^>]+>", " ", section).split())
    # of 30 answers of sft 18 are right, of the 25 that overlap nothing 13
    for row in ("sft with 30 0.6000", "without 25 0.5200", "50% of it found; 12 words in a row in code, src/a.go"):
        assert row in shown
    assert "<script" not in section and "&lt;script&gt;" in section
    assert section.count("<pre>") == 3  # of five


@pytest.fixture
def changed(results_root, tmp_path):
    """The page of the same results once `edit` has changed the `contamination` of eval.json."""

    def make(edit) -> str:
        results = shutil.copytree(results_root, tmp_path / "results")
        evaluation = json.loads((Layout(results).gate).read_text())
        edit(evaluation)
        dump(Layout(results).gate, evaluation)
        return render(results)

    return make


def test_the_page_says_plainly_when_nothing_overlaps(changed):
    html = changed(lambda evaluation: evaluation["contamination"]["suites"]["qa"]["instruct"].update(overlapping={}))
    assert "None of the 30 problems shares 10 words" in html and "without the overlapping" not in html


def test_the_page_says_plainly_when_everything_overlaps(changed):
    def edit(evaluation):
        for model in evaluation["contamination"]["without"].values():
            model["qa"]["instruct"] = dict.fromkeys(model["qa"]["instruct"])

    assert changed(edit).count("no problem is left") == 3


def test_without_a_suite_with_prompts_the_page_has_no_section_on_contamination(changed):
    assert "Contamination" not in changed(lambda evaluation: evaluation.update(contamination=None))


def test_the_sentence_on_contamination_counts_problems_or_says_none():
    row = {"problems": 164, "too_short": 0, "overlapping": 16}
    assert contamination(10, [row]) == "16 of 164 problems share 10 words in a row with the training data."
    assert contamination(8, [row | {"overlapping": 0}]).startswith("None of the 164 problems shares 8 words")
