"""The end of a run: eval.json is published beside the page, or the run fails where the experiment says so."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def verdict(results: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "scripts.report.verdict", "--results", "results"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=results.parent, env=env, capture_output=True, text=True, check=False)


def test_published_evaluation_is_a_byte_copy_and_the_log_lists_the_outcomes(make_results):
    results = make_results()
    done = verdict(results)
    assert done.returncode == 0
    assert (results / "eval.json").read_bytes() == (results / "evaluation/gate/eval.json").read_bytes()
    assert "\n\nOn your code (code, " in done.stderr
    assert "verdict: not met\nreport:  results/report.html" in done.stderr
    assert not list(results.glob(".*"))


def test_unmet_gate_fails_the_run_where_the_experiment_says_so_and_keeps_the_scores(make_results):
    results = make_results(fail=True)
    done = verdict(results)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: evaluation.gate.fail: not met: hostile <script>")
    assert "results/report.html and results/evaluation/gate/eval.json" in last
    assert "verdict: not met" in done.stderr
    assert not (results / "eval.json").exists()
    assert (results / "evaluation/gate/eval.json").is_file()
