"""Pictures: the numbers they show, bytes that depend on data alone, and what is refused."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.common.errors import UserError
from scripts.report.content.drawing import save
from scripts.report.content.formatting import number
from scripts.report.content.funnel import read_funnel
from scripts.report.content.training_log import read_metrics
from scripts.report.plots import draw, gates, scores
from tests.evaluation.synthetic import dump

NAMES = ["funnel", "gates", "loss", "scores"]


def texts(path: Path) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_pictures_show_the_numbers(results_root):
    evaluation = json.loads((results_root / "evaluation/gate/eval.json").read_text())
    funnel = texts(results_root / "report/plots/funnel.svg")
    # 2 sources of 650 files, 30 duplicates among what they kept
    for label in ("What became of 1,300 files", "210 (16.2%)", "1,000 (76.9%)", "54 (4.2%)", "30 (2.3%)", "70 of 100"):
        assert label in funnel
    drawn = texts(results_root / "report/plots/scores.svg")
    assert {"bits per byte, code", "exact match, instruct", "f1, instruct"} <= set(drawn)
    for by_suite in evaluation["scores"].values():
        assert number(by_suite["perplexity"]["code"]["all"]["bits_per_byte"]["value"]) in drawn
        assert number(by_suite["qa"]["instruct"]["all"]["f1"]["value"]) in drawn
    assert {"pretrain", "sft", "training", "validation"} <= set(texts(results_root / "report/plots/loss.svg"))


def test_labels_of_a_gates_axis_do_not_overlap():
    """A difference of bits per byte has labels as long as -0.0016."""
    about = {"name": "better", "metric": "bits_per_byte", "against": "base", "side": "below", "outcome": "met"}
    figure = gates({"gates": [{**about, "value": -0.0012, "interval": [-0.00142, -0.001], "bound": 0}]})
    figure.draw_without_rendering()
    labels = [text.get_window_extent() for text in figure.axes[0].get_xticklabels() if text.get_text()]
    seen = sorted((box.x0, box.x1) for box in labels)
    assert len(seen) > 2
    assert all(left[1] + 8 < right[0] for left, right in pairwise(seen)), seen


def test_names_are_shown_as_they_are(results_root):
    shown = texts(results_root / "report/plots/gates.svg")
    assert "训练有效: met" in shown
    assert 'hostile <script>alert("$x$")</script>: not met, not secured' in shown
    assert "<script" not in (results_root / "report/plots/gates.svg").read_text()


def test_pictures_load_nothing(results_root):
    for name in NAMES:
        svg = (results_root / f"report/plots/{name}.svg").read_text()
        assert not re.findall(r'(?:href|src)="(?!#)', svg)
        assert not re.findall(r"url\((?!#)|@import|<metadata", svg)


def test_same_data_gives_the_same_bytes_in_another_process(results_root, tmp_path):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "scripts.report.plots", "--results", str(results_root), "--out", str(tmp_path)]
    subprocess.run(command, cwd=root, env=os.environ | {"PYTHONHASHSEED": "7"}, check=True)
    for name in NAMES:
        assert (tmp_path / f"{name}.svg").read_bytes() == (results_root / f"report/plots/{name}.svg").read_bytes()


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


def test_the_plot_of_an_experiment_without_gates_says_so(tmp_path):
    save(gates, {"gates": []}, tmp_path / "gates.svg")
    assert texts(tmp_path / "gates.svg") == ["The experiment names no gates."]


def test_intervals_may_be_missing_and_a_loss_overflow(make_results, tmp_path):
    results = make_results(documents=2)
    metrics = results / "training/train/sft/metrics.jsonl"
    metrics.write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": null}\n{"step": 3, "loss": 2.0}\n')
    (results / "training/train/pretrain/metrics.jsonl").write_text("")
    draw(results, tmp_path / "plots")
    assert set(NAMES) == {path.stem for path in (tmp_path / "plots").iterdir()}


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


def test_a_missing_input_is_a_one_line_error_and_nothing_is_drawn(tmp_path):
    root = Path(__file__).parents[2]
    command = [
        sys.executable,
        "-m",
        "scripts.report.plots",
        "--results",
        str(tmp_path),
        "--out",
        str(tmp_path / "plots"),
    ]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    line = f"error: {tmp_path}/evaluation/gate/eval.json: no such file; {tmp_path} is not the results folder of a run"
    assert done.stderr == f"{line} that ended\n"
    assert not (tmp_path / "plots").exists()
