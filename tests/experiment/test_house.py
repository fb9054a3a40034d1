"""An area's folder shows exactly its rules, no module is long, rules quote values."""

import re
from pathlib import Path

import pytest

from scripts.evaluation.suites import abouts

# modules that are no rule of their area, and why
NOT_RULES = {
    "training": {"launch"},  # starts `train` on one or several hosts
}
# modules in a folder of their own; all but one are rules that a loop defines
SUITES = {"evaluation": set(abouts())}
IN_A_LOOP = {"evaluation": {suite for suite, about in abouts().items() if about.needs_gpu}}
MAX_LINES = 400
MAX_COMMON_LINES = 60  # of what all rules share; what one area needs stands in its own file
# what a rule's command may hold without `:q`: a number, and an option that is quoted where it is made
UNQUOTED = {"threads", "resources.engine"}


@pytest.mark.parametrize("area", ["sources", "corpus", "tokens", "training", "evaluation", "report"])
def test_an_areas_folder_shows_exactly_its_rules(area):
    rules = set(re.findall(r"^\s*(?:use )?rule (?:\w+ as )?(\w+)", Path(f"rules/{area}.smk").read_text(), re.M))
    modules = {path.stem for path in Path(f"scripts/{area}").glob("*.py")} - {"__init__"} | SUITES.get(area, set())
    assert modules - NOT_RULES.get(area, set()) == rules | IN_A_LOOP.get(area, set())


def test_no_module_exceeds_the_limit_of_lines():
    lengths = {str(path): len(path.read_text().splitlines()) for path in Path("scripts").rglob("*.py")}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}
    assert len(Path("rules/common.smk").read_text().splitlines()) <= MAX_COMMON_LINES


@pytest.mark.parametrize("path", sorted(Path("rules").glob("*.smk")), ids=lambda path: path.name)
def test_rules_quote_every_value_in_their_commands(path):
    commands = re.findall(r"shell:\n((?:\s+[\"'].*[\"']\n)+)", path.read_text())
    assert path.name == "common.smk" or len(commands) == path.read_text().count("shell:\n") > 0
    values = {value for command in commands for value in re.findall(r"\{([^{}]*)\}", command)}
    assert {value for value in values if not value.endswith(":q")} <= UNQUOTED
