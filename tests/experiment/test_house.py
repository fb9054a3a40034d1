"""The house: an area's folder shows exactly its rules, imports go one way, no module is long (docs/architecture.md)."""

import ast
import re
from pathlib import Path

import pytest

ORDER = ["common", "experiment", "hosts", "sources", "corpus", "tokens", "training", "evaluation", "report", "release"]
# modules that are no rule of their area, and why
NOT_RULES = {
    "training": {"launch"},  # starts `train` on one or several hosts
}
# rules without a module of their own name: the same command, other outputs
SHARED = {"train_adapter"}
# rules that a loop defines, whose names are suites
IN_A_LOOP = {"evaluation": {"perplexity", "qa", "bleu", "keywords", "code", "latency"}}
MAX_LINES = 260
MODULES = sorted(Path("scripts").rglob("*.py"))


def imports(path: Path) -> set[str]:
    """The project modules named in a module's import statements, also those within functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("scripts.")}


@pytest.mark.parametrize("area", ["sources", "corpus", "tokens", "training", "evaluation", "report"])
def test_an_areas_folder_shows_exactly_its_rules(area):
    rules = set(re.findall(r"^\s*(?:use )?rule (?:\w+ as )?(\w+)", Path(f"rules/{area}.smk").read_text(), re.M))
    modules = {path.stem for path in Path(f"scripts/{area}").glob("*.py")} - {"__init__"}
    assert modules - NOT_RULES.get(area, set()) == rules - SHARED | IN_A_LOOP.get(area, set())


@pytest.mark.parametrize("path", [path for path in MODULES if len(path.parts) > 2], ids=str)
def test_no_import_goes_up_the_order_of_areas(path):
    area = path.parts[1]
    allowed = [] if area == "common" else ORDER[: ORDER.index(area)]
    assert {name for name in imports(path) if name.split(".")[1] not in (area, *allowed)} == set()


def test_no_room_of_training_imports_a_rule_above_it():
    rules = {f"scripts.training.{path.stem}" for path in Path("scripts/training").glob("*.py")} - {
        "scripts.training.__init__"
    }
    for path in Path("scripts/training").glob("*/**/*.py"):
        assert not [name for name in imports(path) if name.rpartition(".")[0] in rules or name in rules], path


def test_no_module_is_long():
    lengths = {str(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}
