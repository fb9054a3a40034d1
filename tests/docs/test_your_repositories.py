"""The settings on the page "From the first answer to your model" are valid, the same in both languages."""

import re
from pathlib import Path

import pytest
import yaml

from scripts.experiment.load import load_experiment

PAGES = ["your-repositories.md", "your-repositories.zh.md"]


def settings(page: str) -> dict:
    """The layer of a page."""
    text = Path("docs", page).read_text()
    [block] = re.findall(r"^    corpus:\n(?: {4}.*\n)+", text, re.MULTILINE)
    return yaml.safe_load(block)


@pytest.mark.parametrize("page", PAGES)
def test_the_settings_of_the_page_are_valid_and_train_what_they_say(page):
    experiment = load_experiment({"extends": "config/config.yaml", **settings(page)}, page)
    assert experiment.stages["own"].data == "ours_and_replay" and experiment.evaluation.completion.dataset == "own"


def test_the_english_and_the_chinese_page_show_the_same_settings():
    assert settings(PAGES[0]) == settings(PAGES[1])
