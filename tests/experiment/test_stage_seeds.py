"""`seeds` of a stage: which models are trained and scored, by which seed, and every way to get it wrong."""

from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import Layout
from scripts.experiment.load import load_experiment, merged
from scripts.experiment.machine_files import read_yaml

FILE = Path("config/examples/from-scratch.yaml")


def load(seeds=None, **changes):
    changes |= {"training": {"train": {"sft": {"seeds": seeds}}}} if seeds is not None else {}
    return load_experiment(merged(read_yaml(FILE), changes), "mine.yaml")


def dag(*seeds):
    return ExperimentView(load(list(seeds) or None), {}, Layout(Path("results")))


def test_a_further_seed_or_another_order_of_those_behind_the_first_trains_no_model_again():
    before, after = dag(7, 8), dag(7, 9, 8)
    assert {name: before.seed(name) for name in before.models}.items() <= {
        name: after.seed(name) for name in after.models
    }.items()


def test_every_seed_is_scored_by_the_suites_whose_items_are_compared():
    flow = dag(7, 8)
    folders = {path.parent for path in flow.suite_files("scores.json")}
    assert {flow.layout.suite("perplexity", name) for name in flow.models} <= folders
    assert flow.layout.suite("latency", "sft.seed8") not in folders
    assert flow.own_models == ["pretrain", "sft", "sft.seed8"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"seeds": [7]}, "training.train.sft.seeds: must be a list or mapping of at least 2"),
        ({"seeds": [7, 7]}, "training.train.sft.seeds"),
        ({"seeds": [7, -1]}, "training.train.sft.seeds.1"),
        ({"seeds": 3}, "training.train.sft.seeds: must be a list"),
        (
            {"training": {"train": {"pretrain": {"seeds": [1, 2]}}}},
            "training.train.pretrain.seeds: sft starts from this stage; only a stage from which no other starts can",
        ),
    ],
)
def test_wrong_seeds_are_refused_in_one_line_that_names_the_key(changes, line):
    with pytest.raises(UserError) as refused:
        load(**changes)
    assert f"mine.yaml: {line}" in str(refused.value) and "\n" not in str(refused.value)


def test_a_gate_on_two_stages_with_seeds_needs_as_many_of_both():
    train = read_yaml(FILE)["training"]["train"]
    gate = {"name": "g", "dataset": "instruct", "model": "sft", "metric": "bits_per_byte", "below": 0}
    changes = {
        "training": {"train": {"other": {**train["sft"], "seeds": [1, 2, 3]}}},
        "evaluation": {"gate": {"gates": [{**gate, "against": "other"}]}},
    }
    load(**changes)
    changes["training"]["train"]["sft"] = {"seeds": [1, 2]}
    with pytest.raises(UserError, match=r"gates\.0\.against: sft has 2 seeds, other 3; give both the same number$"):
        load(**changes)
