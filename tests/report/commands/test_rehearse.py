"""scripts/report/commands/rehearse.py: what is changed of an experiment is valid, keeps what is rehearsed, and runs."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.common.files import read_json
from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import load_machine, read_yaml
from scripts.report.commands import rehearse
from scripts.report.commands.rehearse import make_small_base
from tests.training.conftest import LENGTH, MACHINE, STAGE, origin, scratch, tokenizer  # noqa: F401

PROFILES = {
    "qwen2.5-7b-code": "a40",
    "qwen2.5-7b-code-dual": "a40-dual",
    "two-stage-nope": "a800",
    "cpt-muon": "a800",
    "lora-qa": "rtx4090",
}


@pytest.mark.parametrize("name", PROFILES)
def test_each_experiments_rehearsal_is_valid_and_keeps_data_row_lengths_and_gates(name, tmp_path, monkeypatch):
    path, machine = (
        Path(f"config/experiments/{name}.yaml"),
        load_machine(Path(f"config/machines/{PROFILES[name]}.yaml")),
    )
    (tmp_path / "base").mkdir()
    real = load_experiment(read_yaml(path), str(path))
    changed = rehearse.rehearsal_of(path, real, machine, tmp_path / "out", tmp_path / "base")
    small = load_experiment({**changed, "results": "results/rehearsal/x"}, "rehearsal")
    assert (small.corpus, small.sources, small.seed) == (real.corpus, real.sources, real.seed)
    assert [gate.name for gate in small.evaluation.gate.gates] == [gate.name for gate in real.evaluation.gate.gates]
    for stage, settings in real.training.train.items():
        assert small.training.train[stage].steps == 3
        for kept in ("sequence_length", "data", "method", "lora", "quantize", "optimizer", "precision", "scheduler"):
            assert getattr(small.training.train[stage], kept) == getattr(settings, kept)
    assert small.evaluation.perplexity.documents == 2
    assert small.evaluation.perplexity.context == real.evaluation.perplexity.context


def test_a_machine_without_gpus_rehearses_in_fp32(tmp_path):
    path = Path("config/experiments/qwen2.5-7b-code.yaml")
    real = load_experiment(read_yaml(path), str(path))
    rehearsals = [
        rehearse.rehearsal_of(path, real, load_machine(Path(f"config/machines/{name}.yaml")), tmp_path, tmp_path)
        for name in ("a40", "local")
    ]
    stages = [changed["training"]["train"]["sft"] for changed in rehearsals]
    assert [stage.get("precision") for stage in stages] == [None, "fp32"]


@pytest.mark.slow
def test_the_small_base_has_the_vocabulary_and_kind_of_the_real_one(origin, tmp_path):  # noqa: F811
    real = read_json(origin / "config.json")
    make_small_base(scratch().model_copy(update={"model": str(origin)}), tmp_path / "base")
    small = read_json(tmp_path / "base/config.json")
    assert (small["vocab_size"], small["model_type"]) == (real["vocab_size"], real["model_type"])
    assert (small["num_hidden_layers"], small["hidden_size"]) == (2, 64)
    assert (tmp_path / "base/tokenizer.json").read_bytes() == (origin / "tokenizer.json").read_bytes()


@pytest.mark.slow  # its programs need torch
@pytest.mark.soak  # a minute; a whole DAG
def test_a_rehearsal_runs_every_stage_and_suite_and_ends_where_one_would_fail(tmp_path):
    for name in ("config", "profiles", "rules", "scripts", "envs", "Snakefile", "local"):
        (tmp_path / name).symlink_to(Path(name).resolve())
    experiment = {
        "extends": "config/smoke/lora-qa.yaml",
        "results": "results/mine",
        "training": {"train": {"qa_systems": None, "qa_python": {"epochs": None, "steps": 5000, "warmup_steps": 0.1}}},
        "evaluation": {"gate": None},
    }
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(experiment))
    command = [sys.executable, "-m", "scripts.cli", "rehearse", "--experiment", "mine.yaml"]

    def run() -> subprocess.CompletedProcess:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run()
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "plan qa_python: steps 5,000" in done.stderr
    out = tmp_path / "results/rehearsal/mine"
    assert read_json(out / "training/train/qa_python/summary.json")["steps"] == 3
    assert {path.parent.parent.name for path in out.glob("evaluation/*/*/scores.json")} >= {"perplexity", "qa"}
    shutil.rmtree(out)
    chats = tmp_path / "chats.jsonl"
    chats.write_text(json.dumps({"messages": [{"role": "user", "content": "x " * 9000}]}) + "\n")
    experiment["corpus"] = {"compose": {"python": {"path": str(chats)}}}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(experiment))
    failed = run()
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == "error: rehearsal of mine.yaml: data failed; the lines above say why"
