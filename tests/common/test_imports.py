"""The order of the areas: an area imports only earlier ones, and its helper folders import none of its rules."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
AREAS = [
    "common",
    "languages",
    "licences",
    "experiment",
    "hosts",
    "sources",
    "corpus",
    "tokens",
    "training",
    "judge",
    "evaluation",
    "serving",
    "report",
    "release",
]


SETTINGS = ["evaluation", "suites"]  # which the settings of an experiment are made of, and the profiles' checks


def imports(path: Path) -> Iterator[list[str]]:
    """The parts of each module of scripts/ that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            modules = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        yield from (module.split(".")[1:] for module in modules if module.startswith("scripts."))


def test_every_area_is_listed_in_the_order_of_imports():
    assert {path.name for path in SCRIPTS.iterdir() if (path / "__init__.py").exists()} == set(AREAS)


@pytest.mark.parametrize("area", AREAS)
def test_an_area_imports_only_areas_before_it(area):
    allowed = AREAS[: AREAS.index(area) + 1]
    if area == "judge":  # it stands alone
        allowed = ["common", "judge"]
    upward = [
        f"{path.relative_to(SCRIPTS)} imports {'.'.join(module)}"
        for path in (SCRIPTS / area).rglob("*.py")
        for module in imports(path)
        if module[0] not in allowed and not (area in ("experiment", "hosts") and module[:2] == SETTINGS)
    ]
    assert not upward


@pytest.mark.parametrize("area", ["sources", "corpus", "tokens", "training", "evaluation", "report"])
def test_helper_folders_of_an_area_import_none_of_its_rules(area):
    rules = {path.stem for path in (SCRIPTS / area).glob("*.py")} - {"__init__"}
    upward = [
        f"{path.relative_to(SCRIPTS)} imports {'.'.join(module)}"
        for path in (SCRIPTS / area).glob("*/**/*.py")
        for module in imports(path)
        if module[0] == area and module[1] in rules
    ]
    assert not upward


def test_no_modules_of_common_import_each_other_in_a_circle():
    names = {path.stem for path in (SCRIPTS / "common").glob("*.py")}
    needs = {}
    for name in names:
        found = {part for module in imports(SCRIPTS / "common" / f"{name}.py") for part in module[1:2]}
        needs[name] = found & names
    while ready := {name for name, needed in needs.items() if not needed & needs.keys()}:
        for name in ready:
            del needs[name]
    assert not needs
