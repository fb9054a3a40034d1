"""The summary over all datasets against plain sums over items."""

import pytest

from scripts.evaluation.gate import evaluate
from tests.evaluation.synthetic import LEVELS, build, make_experiment, make_items, score_items


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
        assert (row["documents"], row["direction"]) == (30, "better")


def trained_on(dataset: str) -> dict[str, str]:
    return {f"training.train.{stage}.data": dataset for stage in ("pretrain", "sft")}


def test_of_several_stages_on_a_dataset_the_last_counts_and_an_unscored_dataset_has_no_row(tmp_path):
    experiment = build(tmp_path, [], changes=trained_on("code"))
    summary = evaluate(experiment, tmp_path / "results")["summary"]
    assert [(row["dataset"], row["model"]) for row in summary["datasets"]] == [("code", "sft")]
    assert "average" not in summary  # of several stages, so of no model
    summary = evaluate(make_experiment([], trained_on("elsewhere")), tmp_path / "results")["summary"]
    assert summary["datasets"] == []
