"""benchmarks/: each that needs no peer and no GPU is started at its smallest size, in a copy that it may write into."""

import subprocess

import pytest

from benchmarks.credentials import count, labelled_files
from scripts.corpus.secrets.rules import secret_rules
from tests import forked
from tests.workflow.conftest import Clone, checkout

SMALLEST = {
    "bench_near_duplicates": ["--count", "40"],
    "bench_sources": ["--sources", "3"],
    "coverage": ["3"],
    "published_plans": [],
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Clone:
    clone = checkout(tmp_path_factory.mktemp("benchmarks") / "stagecraft")
    clone.commit()
    return clone


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALLEST)
def test_a_benchmark_runs_to_its_end(clone, name):
    line = [forked.python(), "-m", f"benchmarks.{name}", *SMALLEST[name]]
    done = subprocess.run(line, cwd=clone.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr[-3000:]


def test_credentials_are_counted_by_the_labels_of_creddata(tmp_path):
    """A found password, a missed one, a line that is none and stays, and one on which something is replaced wrongly."""
    code = 'ä = 1\npassword = "Xw9CrZqCs"\npassword = "admin"\npassword = load()\npwd = "hunter2A9"\n'
    rows = ["FilePath,RepoName,LineStart,LineEnd,GroundTruth,ValueStart,ValueEnd"]
    rows += [f"data/r/a.py,r,{row}" for row in ("2,2,T,12,21", "3,3,T,12,17", "4,4,F,,", "5,5,F,,", "9,9,F,,")]
    for folder in ("meta", "data/r"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "meta/r.csv").write_text("\n".join(rows) + "\ndata/r/absent.py,r,1,1,F,,\n")
    (tmp_path / "data/r/a.py").write_text(code)
    counts = count(labelled_files(tmp_path), secret_rules())
    assert counts == {"credentials": 2, "found": 1, "others": 2, "wrong": 1}
