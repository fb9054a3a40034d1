"""An area's folder shows exactly its rules, and no module is long. For imports: tests/common/test_imports.py."""

import re
from pathlib import Path

import pytest

# modules that are no rule of their area, and why
NOT_RULES = {
    "training": {"launch"},  # starts `train` on one or several hosts
}
# rules without a module of their own name: the same command, other outputs
SHARED = {"train_adapter"}
# rules that a loop defines, whose names are suites
IN_A_LOOP = {"evaluation": {"perplexity", "qa", "bleu", "keywords", "code", "latency"}}
MAX_LINES = 260


@pytest.mark.parametrize("area", ["sources", "corpus", "tokens", "training", "evaluation", "report"])
def test_an_areas_folder_shows_exactly_its_rules(area):
    rules = set(re.findall(r"^\s*(?:use )?rule (?:\w+ as )?(\w+)", Path(f"rules/{area}.smk").read_text(), re.M))
    modules = {path.stem for path in Path(f"scripts/{area}").glob("*.py")} - {"__init__"}
    assert modules - NOT_RULES.get(area, set()) == rules - SHARED | IN_A_LOOP.get(area, set())


def test_no_module_is_long():
    lengths = {str(path): len(path.read_text().splitlines()) for path in Path("scripts").rglob("*.py")}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}
