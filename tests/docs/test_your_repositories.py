"""The experiment on the page "A model for your repositories" is valid, in both languages the same."""

import re
from pathlib import Path

import pytest
import yaml

from scripts.experiment.arms import expand
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml

PAGES = ["your-repositories.md", "your-repositories.zh.md"]


def settings(page: str) -> dict:
    """The experiment, with the arms of the last section."""
    text = Path("docs", page).read_text().replace("<40 hex digits>", "a" * 40)
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", text, re.MULTILINE)
    settings_blocks = [block for block in blocks if re.search(r"^ {4}(experiment|ablate):", block, re.MULTILINE)]
    assert len(settings_blocks) == 2
    return {
        key: value
        for block in settings_blocks
        for key, value in yaml.safe_load(block.partition("    stagecraft ")[0]).items()
    }


@pytest.mark.parametrize("page", PAGES)
def test_the_experiment_of_the_page_is_valid_and_its_arms_train_what_it_says(page):
    experiment = load_experiment(settings(page), page)
    assert expand(experiment).models["no_replay"] == [f"own.no_replay.s{number}" for number in (1, 2, 3)]
    assert expand(experiment).stages["own.no_replay.s1"].data == "ours"
    assert experiment.evaluation.completion.dataset == "ours" and experiment.evaluation.general == ["general"]


def test_the_english_and_the_chinese_page_show_the_same_experiment():
    assert settings(PAGES[0]) == settings(PAGES[1])


def test_the_further_examples_are_valid_and_train_no_model_of_the_first_again():
    proof = load_experiment(read_yaml(Path("config/examples/own-code.yaml")), "own-code.yaml")
    for name, arms in {
        "own-code-forgotten": ["gentle", "strong", "replay_20", "replay_50"],
        "own-code-planted": ["short_files", "networkx_added", "again"],
    }.items():
        experiment = load_experiment(read_yaml(Path(f"config/examples/{name}.yaml")), name)
        assert list(experiment.ablate.arms) == arms
        shared = experiment.results == proof.results
        same_stages = [stage for stage in experiment.stages if experiment.stages[stage] == proof.stages.get(stage)]
        assert not shared or same_stages == [stage for stage in experiment.stages if stage in proof.stages]
