"""Pictures: the numbers they show, bytes that depend on data alone, and what is refused."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.common.errors import UserError
from scripts.report.content.funnel import read_funnel
from scripts.report.content.pictures import loss, read_metrics, scores, svg
from tests.evaluation.synthetic import dump

ROOT = Path(__file__).parents[2]
LOG = [{"step": 1, "loss": 2.5}, {"step": 2, "loss": None}, {"step": 3, "loss": 2.0, "eval_loss": 2.1}]


def texts(picture: str) -> list[str]:
    return [
        "".join(node.itertext()) for node in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_a_loss_that_overflowed_and_a_stage_without_a_log_are_drawn():
    """Names are shown as they are: a `$` is a dollar, and a script is text."""
    drawn = svg(loss, {"训练 $x$ <script>": LOG, "empty": []})
    assert {"训练 $x$ <script>", "empty", "training", "validation"} <= set(texts(drawn))
    assert "<script" not in drawn


def test_every_score_is_drawn_inside_its_panel_however_far_datasets_lie_apart():
    model_scores = {
        model: {
            "perplexity": {
                name: {"all": {"documents": 1, "bits_per_byte": {"value": value, "interval": None}}}
                for name, value in datasets.items()
            }
        }
        for model, datasets in {"base": {"code": 3.9, "instruct": 9.0}, "sft": {"code": 3.0, "instruct": 3.7}}.items()
    }
    rows = [{"suite": "perplexity", "metric": "bits_per_byte"}]
    for axes in scores({"scores": model_scores, "comparisons": rows}).axes:
        assert axes.get_xlim()[0] == 0
        assert axes.dataLim.x1 < axes.get_xlim()[1]


@pytest.mark.parametrize("line", ["{", "[]", '{"loss": 1}', '{"step": "one"}', "\xff"])
def test_malformed_metrics_name_the_line(line, tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line.encode("latin-1") + b"\n")
    with pytest.raises(UserError, match=r"metrics\.jsonl: line \d: no logged step") as refused:
        read_metrics(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("change", [{"seen": 651}, {"dropped": None}, {"languages": []}])
def test_counts_that_do_not_add_up_are_refused(change, make_results):
    results = make_results()
    path = results / "corpus/filter/alpha/manifest.json"
    dump(path, json.loads(path.read_text()) | change)
    with pytest.raises(UserError, match=r"alpha/manifest\.json"):
        read_funnel(results, ["alpha", "beta"])
