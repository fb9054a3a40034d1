"""`ablate`: what each arm trains, what is shared, and every way to get an arm wrong."""

from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.experiment.ablation_files import ablation_files
from scripts.experiment.arms import expand
from scripts.experiment.experiment_view import ExperimentView
from scripts.experiment.layout import Layout
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.record import to_json
from scripts.experiment.settings.tokens import Mixture

FILE = Path("config/config.yaml")
SFT = {"training": {"train": {"sft": {"learning_rate": 1e-4}}}}


def load(**ablate):
    return load_experiment({**read_yaml(FILE), "ablate": ablate}, "mine.yaml")


def dag(**ablate):
    return ExperimentView(load(**ablate), {}, Layout(Path("results")))


def test_without_arms_nothing_is_added():
    flow = ExperimentView(load_experiment(read_yaml(FILE), str(FILE)), {}, Layout(Path("results")))
    assert flow.stages == flow.experiment.training.train and ablation_files(flow, "scores.json") == []
    assert list(flow.datasets) == ["code", "instruct"] and flow.seed("sft") == 42


def test_an_arm_trains_from_the_first_stage_on_that_it_changes_and_shares_what_stands_before_it():
    arms = expand(load(seeds=3, arms={"slow": SFT}))
    assert arms.models == {
        "reference": ["sft", "sft.s2", "sft.s3"],
        "slow": ["sft.slow.s1", "sft.slow.s2", "sft.slow.s3"],
    }
    assert {stage.origin for stage in arms.stages.values()} == {"pretrain"}
    assert [arms.stages[name].learning_rate for name in ("sft.s2", "sft.slow.s1")] == [5e-4, 1e-4]
    assert "pretrain" not in " ".join(arms.stages)


def test_runs_of_one_number_have_one_seed_in_all_arms_and_the_first_is_the_experiments():
    flow = dag(seeds=2, arms={"slow": SFT})
    assert flow.seed("sft.slow.s1") == flow.seed("sft") == 42 != flow.seed("sft.s2") == flow.seed("sft.slow.s2")


def test_a_change_of_an_early_stage_trains_what_follows_again_in_that_arm_and_over_seeds_in_all():
    arms = expand(load(seeds=2, arms={"slow": SFT, "longer": {"training": {"train": {"pretrain": {"steps": 300}}}}}))
    assert arms.models["longer"] == ["sft.longer.s1", "sft.longer.s2"]
    assert arms.stages["sft.longer.s1"].origin == "pretrain.longer.s1"
    # arm slow changes sft alone, so of each seed it shares the pretraining with the experiment itself
    assert [arms.stages[name].origin for name in arms.models["slow"]] == ["pretrain", "pretrain.s2"]
    assert arms.stages["sft.s2"].origin == "pretrain.s2"


def test_an_arm_with_other_data_has_a_dataset_of_its_own_which_arms_alike_share():
    english = {"corpus": {"compose": {"instruct": {"language": "en"}}}}
    both = {**english, **SFT}
    flow = dag(seeds=2, arms={"english": english, "both": both})
    assert list(flow.datasets) == ["code", "instruct", "instruct.english"]
    assert flow.stages["sft.both.s1"].data == flow.stages["sft.english.s1"].data == "instruct.english"
    assert str(flow.shards("sft.both.s1")) == "results/tokens/pack/instruct.english-1024"
    assert flow.trained_on == ["code", "instruct", "instruct.english"]  # none of it may hold a task's answer


def test_an_arm_may_filter_a_dataset_differently_and_shares_filter_deduplication_and_split():
    filtered = {"corpus": {"compose": {"instruct": {"filter": {"min_lines": 40, "quality": {"min_score": 3}}}}}}
    flow = dag(seeds=2, arms={"strict": filtered})
    assert [flow.stages[name].data for name in flow.arms.models["strict"]] == ["instruct.strict"] * 2
    assert flow.datasets["instruct.strict"].filter.min_lines == 40 and flow.datasets["instruct"].filter is None
    assert flow.expanded.corpus.filter == flow.experiment.corpus.filter
    assert "filter" not in to_json(flow.datasets["instruct"])  # so a dataset without one is not made again


def test_an_arm_with_another_share_of_replay_or_other_data_in_a_mixture_has_a_mixture_of_its_own():
    config = read_yaml(FILE)
    config["tokens"]["mix"] = {"both": {"parts": {"code": {"weight": 1}, "instruct": {"weight": 9}}}}
    config["training"]["train"]["sft"]["data"] = "both"
    less = {"tokens": {"mix": {"both": {"parts": {"code": {"weight": 0.1}}}}}}
    english = {"corpus": {"compose": {"instruct": {"language": "en"}}}}
    config["ablate"] = {"seeds": 2, "arms": {"less": less, "english": english}}
    flow = ExperimentView(load_experiment(config, "mine.yaml"), {}, Layout(Path("results")))
    assert {name: list(mixture.parts) for name, mixture in flow.expanded.tokens.mix.items()} == {
        "both": ["code", "instruct"],
        "both.less": ["code", "instruct"],
        "both.english": ["code", "instruct.english"],
    }
    assert flow.expanded.tokens.mix["both.less"].parts["code"].weight == 0.1
    assert str(flow.shards("sft.english.s1")) == "results/tokens/mix/both.english-1024"
    assert flow.trained_on == ["code", "instruct", "instruct.english"]
    Mixture.from_json(to_json(flow.expanded.tokens.mix["both.english"]))  # as rule mix hands it on


def test_arms_that_train_a_stage_alike_share_it():
    longer = {"pretrain": {"steps": 300}}
    arms = expand(
        load(
            seeds=2,
            arms={
                "longer": {"training": {"train": longer}},
                "both": {"training": {"train": {**longer, "sft": {"learning_rate": 1e-4}}}},
            },
        )
    )
    assert [arms.stages[name].origin for name in arms.models["both"]] == ["pretrain.longer.s1", "pretrain.longer.s2"]


def test_an_arm_of_another_seed_alone_is_the_experiment_again():
    flow = dag(seeds=2, arms={"again": {"seed": 7}})
    assert flow.arms.models["again"] == ["sft.again.s1", "sft.again.s2"]
    own, again = flow.stages["sft"], flow.stages["sft.again.s1"]
    assert own == again and flow.seed("sft.again.s1") == 7
    assert len({flow.seed(name) for names in flow.arms.models.values() for name in names}) == 4


def test_an_arm_may_put_a_stage_of_its_own_before_the_others():
    first = {**read_yaml(FILE)["training"]["train"]["pretrain"], "steps": 20}
    arms = expand(load(seeds=2, arms={"warm": {"training": {"train": {"warm": first, "pretrain": {"from": "warm"}}}}}))
    assert arms.stages["warm.warm.s1"].origin == "base"
    assert arms.stages["pretrain.warm.s1"].origin == "warm.warm.s1"


def test_the_experiments_own_scores_and_report_do_not_hold_the_arms_models():
    flow = dag(seeds=2, arms={"slow": SFT}, metrics=["bits_per_byte"])
    own = {path.parent.name for path in flow.suite_files("scores.json")}
    assert own == {"base", "pretrain", "sft"}
    scored = {str(path) for path in ablation_files(flow, "scores.json")}
    names = ["sft", "sft.s2", "sft.slow.s1", "sft.slow.s2"]
    assert scored == {f"results/evaluation/perplexity/{name}/scores.json" for name in names}


def test_only_what_an_arm_changes_runs_again_when_an_arm_is_added():
    before, after = (
        dag(seeds=2, arms={"slow": SFT}),
        dag(seeds=2, arms={"slow": SFT, "slower": {"training": {"train": {"sft": {"learning_rate": 1e-5}}}}}),
    )
    for name in before.stages:
        assert (before.stages[name], before.seed(name)) == (after.stages[name], after.seed(name))


@pytest.mark.parametrize(
    ("arm", "line"),
    [
        (
            {"training": {"train": {"sft": {"learning_rat": 1}}}},
            r"ablate\.arms\.a\.training\.train\.sft\.learning_rat: ",
        ),
        (
            {"training": {"train": {"sft": {"learning_rate": -1}}}},
            r"ablate\.arms\.a\.training\.train\.sft\.learning_rate: must be greater than 0",
        ),
        ({"training": {"train": {"sft": {"data": "nope"}}}}, r"ablate\.arms\.a: training\.train\.sft\.data: no 'nope'"),
        ({"training": {"train": {"sft": None}}}, r"ablate\.arms\.a\.training\.train: no 'sft' here"),
        ({"training": {"train": {"sft": {"from": "sft"}}}}, "a cycle"),
        ({"training": {"base": {"shape": {"hidden_size": 64}}}}, r"ablate\.arms\.a\.training\.base: an arm may change"),
        ({"evaluation": {"perplexity": {"documents": 3}}}, r"ablate\.arms\.a\.evaluation: an arm may change"),
        ({"corpus": {"filter": {"min_lines": 3}}}, r"ablate\.arms\.a\.corpus\.filter: an arm may change"),
        ({"corpus": {"split": {"by": "repository"}}}, r"ablate\.arms\.a\.corpus\.split: an arm may change"),
        (
            {"corpus": {"compose": {"code": {"filter": {"secrets": "keep"}}}}},
            r"compose\.code\.filter\.secrets: unknown key",
        ),
        ({"corpus": {"compose": {"extra": {"kind": "code"}}}}, r"ablate\.arms\.a: does not change how sft is trained"),
        ({"training": {"train": {"sft": {"log_share": 0.3}}}}, r"ablate\.arms\.a: does not change how sft is trained"),
        ({}, r"ablate\.arms\.a: does not change how sft is trained"),
        ({"training": None}, r"ablate\.arms\.a\.training: an arm may change"),
        ({"training": 5}, r"ablate\.arms\.a\.training: must be a mapping"),
        ({"result": "results/x"}, r"ablate\.arms\.a\.result: unknown key; did you mean"),
        (7, r"ablate\.arms\.a: must be a mapping"),
    ],
)
def test_a_wrong_arm_is_a_one_line_error_that_names_it(arm, line):
    with pytest.raises(UserError, match=rf"^mine\.yaml: .*{line}"):
        load(arms={"a": arm})


def test_the_general_set_is_one_that_is_scored():
    config = read_yaml(FILE)
    config["evaluation"]["general"] = ["instruct", "function"]
    assert load_experiment(config, "mine.yaml").evaluation.general == ["instruct", "function"]
    config["evaluation"]["general"] = ["mmlu"]
    with pytest.raises(
        UserError, match=r"^mine\.yaml: evaluation\.general: no 'mmlu' here; known: code, instruct, line"
    ):
        load_experiment(config, "mine.yaml")


def test_an_experiment_without_training_has_no_arms():
    config = {**read_yaml(FILE), "ablate": {"arms": {"a": SFT}}}
    del config["training"]
    with pytest.raises(UserError, match=r"mine\.yaml: ablate: needs `training`"):
        load_experiment(config, "mine.yaml")


@pytest.mark.parametrize(
    ("ablate", "line"),
    [
        ({"arms": {}}, "ablate.arms: must be a list or mapping of at least 1"),
        ({"arms": {"a": SFT}, "seeds": 1}, "ablate.seeds: must be at least 2"),
        ({"arms": {"a": SFT}, "model": "nope"}, "ablate.model: no 'nope' here"),
        ({"arms": {"a": SFT}, "metrics": ["accuracy"]}, "ablate.metrics: no 'accuracy' here"),
        ({"arms": {"a": SFT}, "metrics": ["pass@1"]}, "ablate.metrics: no 'pass@1' here"),
        ({"arms": {"reference": SFT}}, "ablate.arms.reference: this names the experiment itself"),
        ({"arms": {"a.b": SFT}}, "ablate.arms.a.b"),
        ({"arms": {"a": SFT}, "model": "pretrain"}, "ablate.arms.a: does not change how pretrain is trained"),
    ],
)
def test_wrong_settings_of_ablate_are_one_line_errors(ablate, line):
    with pytest.raises(UserError, match=f"^mine.yaml: {line}"):
        load(**ablate)
