"""The page's sections on latency, on people, and on the datasets of a summary."""

import json

from matplotlib import pyplot

from scripts.report.content import pictures
from scripts.report.page import render
from tests.evaluation.synthetic import dump
from tests.report.conftest import HOSTILE, Page


def test_latency_is_shown_where_it_was_measured_and_elsewhere_the_reason_why_not(make_results):
    """The gate, its interval and the table of models, as the gate's own file says them."""
    results = make_results()
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())
    evaluation["inputs"]["experiment"]["evaluation"]["latency"] = {
        **{"device": "A40", "prompt_tokens": 300, "new_tokens": 512}
    }
    timed = {
        "first_token_seconds": {"value": 0.125, "interval": [0.12, 0.13]},
        "answer_seconds": {"value": 1.5, "interval": [1.25, 1.75]},
        "tokens_per_second": {"value": 371.6, "interval": None},
    }
    evaluation["latency"] = {"base": {"not_applicable": f"models run on {HOSTILE} here"}, "sft": timed}
    conditions = {"dtype": "bfloat16", "attention": "sdpa", "threads": 8}
    facts = {"device": "NVIDIA A40", "engine": {"name": "transformers", "version": "5.23.0"}, "conditions": conditions}
    evaluation["scoring"]["sft"]["latency"] = facts
    evaluation["scoring"]["base"]["latency"] = {"device": HOSTILE}
    facts = {
        "metric": "answer_seconds",
        "dataset": None,
        "language": None,
        "against": None,
        "side": "below",
        "bound": 2,
    }
    judged = {"name": "fast", "model": "sft", "value": 1.5, "interval": [1.25, 1.75], "outcome": "met"}
    evaluation["gates"].append(facts | judged)
    dump(path, evaluation)
    html = render(results)
    assert "<script" not in html
    text = " ".join(" ".join(Page(html).text).split())
    for phrase in (
        "fast sft, answer seconds met 1.500 1.250 to 1.750 below 2",
        "Medians of 10 runs after two that warm the device up; each run generates 512 tokens greedily from a prompt of"
        " 300",
        f"base: not applicable: models run on {HOSTILE} here",
        "sft NVIDIA A40, bfloat16, transformers 5.23.0, sdpa attention, CPU threads: 8 seconds to the first token"
        " 0.1250 0.1200 to 0.1300",
        "tokens per second 371.6 too few runs",
    ):
        assert phrase in text


def test_ratings_by_people_are_shown_with_their_agreement_or_else_the_path_of_the_blank_sheet(make_results):
    results = make_results()
    path = results / "evaluation/gate/eval.json"
    evaluation = json.loads(path.read_text())

    def rendered(**keys):
        evaluation["human_ratings"] = {"rows": 30, "raters": {}, "agreement": None} | keys
        dump(path, evaluation)
        page = Page(render(results))
        return page, " ".join(" ".join(page.text).split())

    page, text = rendered()
    assert "No sheet is filled in yet. The blank sheet with 30 rows" in text
    assert ("a", "href", "evaluation/human_ratings/sheet.csv") in page.attributes
    score = {"documents": 30, "correct": {"value": 0.8765, "interval": [0.7123, 0.9432]}}
    evaluation["scores"]["sft"]["human_ratings"] = {"instruct": {"all": score}}  # nobody rated the others
    evaluation["inputs"]["experiment"]["evaluation"]["human_ratings"] = {"of": "qa"}
    assert "With one rater there is no agreement" in rendered(raters={"anna": 0.9})[1]
    text = rendered(raters={"<b>anna": 0.9, "bo": 0.85}, agreement=0.875)[1]
    assert "correct instruct sft 30 0.8765 0.7123 to 0.9432" in text
    assert "30 responses rated by <b>anna (90% correct), bo (85% correct). Pairs of raters agree on 88%" in text
    picture = pictures.scores(evaluation)
    assert [axes.get_title() for axes in picture.axes][-1] == "correct, instruct"
    pyplot.close(picture)
