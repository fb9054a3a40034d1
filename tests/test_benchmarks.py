"""benchmarks/: each that needs no peer and no GPU is started at its smallest size, in a copy that it may write into."""

import subprocess
import sys

import pytest

from tests.workflow.conftest import checkout

SMALLEST = {
    "bench_near_duplicates": ["--count", "40"],
    "bench_sources": ["--sources", "3"],
    "coverage": ["3"],
    "published_plans": [],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs_to_its_end(tmp_path, name):
    clone = checkout(tmp_path / "stagecraft")
    clone.commit()
    line = [sys.executable, "-m", f"benchmarks.{name}", *SMALLEST[name]]
    done = subprocess.run(line, cwd=clone.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr[-3000:]
