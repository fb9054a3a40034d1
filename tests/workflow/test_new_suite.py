"""A tenth suite is one file: scripts/evaluation/suites/valid_json.py, which CONTRIBUTING.md shows, in a clone."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

FILE = Path(__file__).with_name("valid_json.py")


@pytest.mark.soak
def test_a_suite_is_one_file_from_its_settings_to_gates_and_report(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    shutil.copy(FILE, clone.root / "scripts/evaluation/suites")
    path = clone.root / "config/tiny.yaml"
    experiment = yaml.safe_load(path.read_text())
    evaluation = experiment["evaluation"]
    evaluation["valid_json"] = {"documents": 2, "max_new_tokens": 4}
    wanted = {"name": "JSON", "dataset": "instruct", "model": "sft", "metric": "valid_json", "above": 2}
    path.write_text(yaml.safe_dump(experiment | {"evaluation": evaluation | {"gate": {"gates": [wanted]}}}))
    new = {"valid_json base", "valid_json pretrain", "valid_json sft", "contamination", "gate", "page", "verdict"}
    assert clone.jobs() - {"all"} == new
    clone.snakemake("results/eval.json")
    result = json.loads((clone.root / "results/eval.json").read_text())
    assert [gate["outcome"] for gate in result["gates"]] == ["not met, not secured"]  # two answers have no interval
    assert result["scores"]["sft"]["valid_json"]["instruct"]["all"]["documents"] == 2
    assert "Share of answers that are JSON" in (clone.root / "results/report.html").read_text()
    assert clone.jobs() - {"all"} == set()

    evaluation["valid_json"]["datasets"] = ["code"]
    path.write_text(yaml.safe_dump(experiment))
    refused = clone.snakemake("-n", "results/eval.json", check=False)
    assert refused.returncode and "evaluation.valid_json.datasets: no 'code' here; known: instruct" in refused.stderr


def test_contributing_shows_the_file_as_it_is():
    shown = "\n".join(f"    {line}".rstrip() for line in FILE.read_text().splitlines())
    assert shown in Path("CONTRIBUTING.md").read_text()
