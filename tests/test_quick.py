"""tests/quick.py: which tests `make quick` runs, and that none of them imports torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick import ROOT, is_quick


@pytest.mark.parametrize("area", ["common", "corpus", "experiment", "hosts", "release", "report", "sources", "tokens"])
def test_all_files_of_an_area_without_models_are_quick(area):
    slow = [path for path in Path(ROOT, "tests", area).rglob("test_*.py") if not is_quick(path)]
    assert not slow


def test_files_that_reach_torch_or_run_the_workflow_are_not(tmp_path):
    assert not is_quick(ROOT / "tests/training/test_train.py")
    assert not is_quick(ROOT / "tests/evaluation/test_perplexity.py")  # by way of scripts/evaluation/perplexity.py
    assert not is_quick(ROOT / "tests/workflow/test_reruns.py")
    assert is_quick(ROOT / "tests/evaluation/sandbox/test_judge.py")
    (tmp_path / "test_inside.py").write_text("def test():\n    import torch\n")
    assert is_quick(tmp_path / "test_inside.py"), "what is imported inside a function is found when it runs"


def test_torch_cannot_be_imported_by_quick_tests_nor_by_the_programs_they_start(tmp_path):
    here, child = (
        "import torch",
        f"import subprocess; subprocess.run([{sys.executable!r}, '-c', 'import torch'], check=True)",
    )
    (tmp_path / "test_it.py").write_text(f"def test_here():\n    {here}\n\ndef test_child():\n    {child}\n")
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.conftest", "--quick", str(tmp_path)]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "2 failed" in done.stdout, done.stdout
    assert "quick tests run without torch" in done.stdout and "import of torch halted" in done.stdout
