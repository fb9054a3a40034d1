"""tests/quick.py: which tests `make quick` runs, and that none of them imports torch."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick import BLOCKED, ROOT, is_quick


@pytest.mark.parametrize("area", ["common", "corpus", "experiment", "hosts", "release", "report", "sources", "tokens"])
def test_all_files_of_an_area_without_models_are_quick(area):
    slow = [path for path in Path(ROOT, "tests", area).rglob("test_*.py") if not is_quick(path)]
    assert not slow


def test_files_that_reach_torch_or_run_the_workflow_are_not_quick(tmp_path):
    assert not is_quick(ROOT / "tests/training/test_train.py")
    assert not is_quick(
        ROOT / "tests/evaluation/test_perplexity.py"
    )  # by way of scripts/evaluation/suites/perplexity.py
    assert not is_quick(ROOT / "tests/training/test_bench_gpu.py")  # by way of benchmarks/bench_gpu.py
    assert not is_quick(ROOT / "tests/workflow/test_reruns.py")
    assert is_quick(ROOT / "tests/judge/test_judge.py")
    (tmp_path / "test_inside.py").write_text("def test():\n    import torch\n")
    assert is_quick(tmp_path / "test_inside.py"), "what is imported inside a function is found when it runs"


def run(folder: Path, *options: str) -> str:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest", *options, str(folder)]
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("options", [["--quick"], []])
def test_torch_cannot_be_imported_by_quick_tests_nor_by_the_programs_they_start(tmp_path, options):
    here, child = (
        "import torch",
        f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'import torch'], check=True)",
    )
    (tmp_path / "test_it.py").write_text(f"def test_here():\n    {here}\n\ndef test_child():\n    {child}\n")
    shown = run(tmp_path, *options)
    assert "2 failed" in shown, shown
    assert "quick tests run without torch" in shown and "No module named 'torch'" in shown


def test_each_test_is_in_one_of_the_two_halves_of_make_test(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(BLOCKED))  # what imports torch fails, and fast
    (tmp_path / "test_a.py").write_text(
        "import pytest\n\ndef test_1():\n    pass\n\n@pytest.mark.slow\ndef test_2():\n    pass\n"
    )
    (tmp_path / "test_b.py").write_text("from torch import nn\n\ndef test_3():\n    pass\n")
    (tmp_path / "test_c.py").write_text("def test_4():\n    pass\n")
    quick, rest = (run(tmp_path, half, "--collect-only") for half in ("--quick", "--rest"))
    assert re.findall(r"test_\w\.py::\w+$", quick, re.MULTILINE) == ["test_a.py::test_1", "test_c.py::test_4"], quick
    assert "test_b" not in quick
    assert re.findall(r"test_\w\.py::\w+$", rest, re.MULTILINE) == ["test_a.py::test_2"], rest
    assert "error" in rest and "test_b.py" in rest
