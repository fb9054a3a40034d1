"""scripts/report/commands/why.py: the first cause of each job."""

import re
from pathlib import Path

import pytest

from scripts.common.errors import UserError
from scripts.common.files import write_cache
from scripts.evaluation.suites import abouts
from scripts.experiment.reruns.causes import code_file, param_changes, rule_modules, setting_changes, unit_changes
from scripts.experiment.reruns.fingerprint import fingerprint, path_of, reach
from scripts.hosts.job_graph import module_of
from scripts.report.commands.why import dry_run, names_or_counts

MODULE = "scripts.corpus.filter"


def test_a_changed_setting_is_named_with_both_values():
    old = {"learning_rate": 2e-5, "lora": {"r": 8}, "data": "code"}
    new = {"learning_rate": 1e-5, "lora": {"r": 8}, "steps": 3}
    assert setting_changes(old, new) == ["learning_rate 2e-5 → 1e-5", "steps not set → 3", "data code → not set"]
    assert setting_changes({"a": ["x", "y"]}, {"a": ["y", "z"]}) == ["a + z, - x"]


def reprs(**params) -> dict[str, str]:
    return {name: repr(value) for name, value in params.items()}


def test_changed_new_and_removed_params_are_named_settings_first(tmp_path):
    recorded = reprs(settings='{"min_lines": 10, "max_bytes": 5}', code="0" * 16, seed=42, out="results/x", old=1)
    present = reprs(
        code=fingerprint(MODULE), settings='{"min_lines": 11, "max_bytes": 5}', seed=43, out="results/x", k=2
    )
    assert param_changes(recorded, present, MODULE, tmp_path) == [
        "min_lines 10 → 11",
        "seed 42 → 43",
        "k 2 is new",
        "old is no longer a setting",
        f"code changed (there is no record of the code {'0' * 16})",
    ]
    assert param_changes(present, present, MODULE, tmp_path) == []


def test_the_function_that_changed_is_named(tmp_path):
    units = reach(MODULE).units()
    unit = "scripts/corpus/heuristics/quality.py:check_quality"
    assert units[unit].startswith("function ") and "scripts/corpus/filter.py:__main__" in units
    write_cache(code_file("1" * 16, tmp_path), {"module": MODULE, "units": units | {unit: "function 0"}})
    changes = param_changes(reprs(code="1" * 16), reprs(code=fingerprint(MODULE)), MODULE, tmp_path)
    assert changes == [f"function {unit} changed"]


def test_the_code_of_every_rule_and_suite_is_recorded():
    """A rule without a record: `why` could only say that its code changed."""
    modules = {module_of("evaluation", suite) for suite in abouts()}
    for path in Path("rules").glob("*.smk"):
        names = re.findall(r"^\s*rule (\w+):", path.read_text(), re.MULTILINE)
        modules |= {module_of(path.stem, name) for name in names}
    assert {module for module in modules if path_of(module)} <= set(rule_modules())


def test_changed_code_is_listed_before_new_and_removed_code():
    old = {"a.py:f": "function 1", "a.py:X": "constant 1", "a.py:os from os:None": "import "}
    new = {"a.py:f": "function 2", "a.py:G": "class 1", "data.txt": "file 1"}
    assert unit_changes(old, new) == [
        "function a.py:f changed",
        "class a.py:G is new or newly used",
        "data.txt is new or newly used",
        "constant a.py:X is gone or no longer used",
        "import a.py:os from os:None is gone or no longer used",
    ]


def test_many_jobs_are_counted_by_rule():
    assert names_or_counts(["filter a", "gate"]) == "filter a, gate"
    assert names_or_counts([f"filter {number}" for number in range(9)] + ["split"]) == "9 × filter, split"


def test_a_missing_experiment_file_is_a_one_line_error(tmp_path):
    with pytest.raises(UserError, match=r"none.yaml: no such file$"):
        dry_run("local", tmp_path / "none.yaml")
