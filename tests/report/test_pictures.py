"""Pictures: the numbers they show, bytes that depend on data alone, and what is refused."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.common.errors import UserError
from scripts.report.content.formatting import number
from scripts.report.content.funnel import read_funnel
from scripts.report.content.pictures import loss, read_metrics, scores, svg
from tests.evaluation.synthetic import dump

ROOT = Path(__file__).parents[2]
LOG = [{"step": 1, "loss": 2.5}, {"step": 2, "loss": None}, {"step": 3, "loss": 2.0, "eval_loss": 2.1}]


def texts(picture: str) -> list[str]:
    return [
        "".join(node.itertext()) for node in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_pictures_show_the_numbers_and_load_nothing(results_root):
    evaluation = json.loads((results_root / "evaluation/gate/eval.json").read_text())
    drawn = svg(scores, evaluation)
    assert {"bits per byte, code", "exact match, instruct", "f1, instruct"} <= set(texts(drawn))
    for by_suite in evaluation["scores"].values():
        assert number(by_suite["perplexity"]["code"]["all"]["bits_per_byte"]["value"]) in texts(drawn)
        assert number(by_suite["qa"]["instruct"]["all"]["f1"]["value"]) in texts(drawn)
    assert not re.findall(r'(?:href|src)="(?!#)|url\((?!#)|@import|<metadata', drawn)


def test_a_loss_that_overflowed_and_a_stage_without_a_log_are_drawn():
    """Names are shown as they are: a `$` is a dollar, and a script is text."""
    drawn = svg(loss, {"训练 $x$ <script>": LOG, "empty": []})
    assert {"训练 $x$ <script>", "empty", "training", "validation"} <= set(texts(drawn))
    assert "<script" not in drawn


def test_same_data_gives_the_same_bytes_in_another_process():
    code = f"from scripts.report.content.pictures import loss, svg; print(svg(loss, {{'a': {LOG!r}}}), end='')"
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout == svg(loss, {"a": LOG})


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


def test_a_metric_that_is_zero_for_all_models_or_of_too_few_documents_has_no_panel():
    def score(value, interval):
        return {"all": {"documents": 9, "bits_per_byte": {"value": value, "interval": interval}}}

    datasets = {"told": score(1.0, [0.5, 1.5]), "few": score(1.0, None), "nothing": score(0.0, [0.0, 0.0])}
    evaluation = {
        "scores": {"base": {"perplexity": datasets}},
        "comparisons": [{"suite": "perplexity", "metric": "bits_per_byte"}],
    }
    assert [axes.get_title() for axes in scores(evaluation).axes] == ["bits per byte, told"]
