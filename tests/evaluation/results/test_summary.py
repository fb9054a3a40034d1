"""The summary over all datasets against plain sums over items."""

import math

import numpy as np
import pytest

from scripts.evaluation.gate import evaluate
from tests.evaluation.synthetic import LEVELS, build, make_experiment, make_items, score_items, write_model
from tests.evaluation.test_gate import DATA


def bits(model: str, dataset: str, documents: int = 10) -> float:
    items = make_items(model, documents, LEVELS[model])
    return score_items([item for item in items if item["dataset"] == dataset])["bits_per_byte"]


def test_each_dataset_has_the_base_and_the_stage_that_was_trained_on_it(tmp_path):
    summary = evaluate(build(tmp_path, []), tmp_path / "results")["summary"]
    assert [(row["dataset"], row["model"]) for row in summary["datasets"]] == [
        ("code", "pretrain"),
        ("instruct", "sft"),
    ]
    for row in summary["datasets"]:
        base, tuned = bits("base", row["dataset"]), bits(row["model"], row["dataset"])
        assert (row["base"], row["tuned"], row["value"]) == pytest.approx((base, tuned, tuned - base))
        assert row["interval"][0] < row["value"] < row["interval"][1] < 0
        assert (row["documents"], row["reading"]) == (30, "better")


def test_in_the_average_each_dataset_counts_the_same_however_large(tmp_path):
    experiment = build(tmp_path, [])
    for model, level in LEVELS.items():  # ten times as many chats as code
        items = [item for item in make_items(model, 10, level) if item["dataset"] == "code"]
        items += [item for item in make_items(model, 100, level) if item["dataset"] == "instruct"]
        write_model(tmp_path, model, items, DATA)
    summary = evaluate(experiment, tmp_path / "results")["summary"]
    base = (bits("base", "code") + bits("base", "instruct", 100)) / 2
    tuned = (bits("pretrain", "code") + bits("sft", "instruct", 100)) / 2
    average = summary["average"]
    assert (average["base"], average["tuned"], average["value"]) == pytest.approx((base, tuned, tuned - base))


def test_the_averages_interval_is_that_of_a_mean_of_independent_differences(tmp_path):
    """Variances of independent terms add up, so the width is half the root of the sum of squared widths."""
    experiment = build(tmp_path, [], documents=60, changes={"evaluation.gate.resamples": 4000})
    summary = evaluate(experiment, tmp_path / "results")["summary"]
    widths = [np.ptp(row["interval"]) for row in summary["datasets"]]
    assert np.ptp(summary["average"]["interval"]) == pytest.approx(math.hypot(*widths) / 2, rel=0.1)


def trained_on(dataset: str) -> dict[str, str]:
    return {f"training.train.{stage}.data": dataset for stage in ("pretrain", "sft")}


def test_of_several_stages_on_a_dataset_the_last_counts_and_an_unscored_dataset_has_no_row(tmp_path):
    experiment = build(tmp_path, [], changes=trained_on("code"))
    summary = evaluate(experiment, tmp_path / "results")["summary"]
    assert [(row["dataset"], row["model"]) for row in summary["datasets"]] == [("code", "sft")]
    row, average = summary["datasets"][0], summary["average"]
    assert average == {key: row[key] for key in average}
    summary = evaluate(make_experiment([], trained_on("elsewhere")), tmp_path / "results")["summary"]
    assert (summary["datasets"], summary["average"]) == ([], None)


def test_the_smallest_dataset_decides_whether_the_average_has_an_interval(tmp_path):
    experiment = build(tmp_path, [])
    for model, level in LEVELS.items():
        items = make_items(model, 10, level)
        few = [item for item in items if item["dataset"] == "instruct"][:3]
        write_model(tmp_path, model, [item for item in items if item["dataset"] == "code"] + few, DATA)
    summary = evaluate(experiment, tmp_path / "results")["summary"]
    assert summary["datasets"][0]["interval"] is not None
    assert summary["datasets"][1]["interval"] is None
    assert (summary["average"]["interval"], summary["average"]["reading"]) == (None, "no difference shown")
