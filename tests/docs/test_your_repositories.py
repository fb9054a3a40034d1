"""The experiment on the page "A model for your repositories" is valid, in both languages the same."""

import re
from pathlib import Path

import pytest
import yaml

from scripts.experiment.load import load_experiment

PAGES = ["your-repositories.md", "your-repositories.zh.md"]


def settings(page: str) -> dict:
    """The experiment of a page."""
    text = Path("docs", page).read_text().replace("<40 hex digits>", "a" * 40)
    blocks = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", text, re.MULTILINE)
    [block] = [block for block in blocks if re.search(r"^ {4}experiment:", block, re.MULTILINE)]
    return yaml.safe_load(block)


@pytest.mark.parametrize("page", PAGES)
def test_the_experiment_of_the_page_is_valid_and_trains_what_it_says(page):
    experiment = load_experiment(settings(page), page)
    assert experiment.stages["own"].data == "ours_and_replay"


def test_the_english_and_the_chinese_page_show_the_same_experiment():
    assert settings(PAGES[0]) == settings(PAGES[1])
