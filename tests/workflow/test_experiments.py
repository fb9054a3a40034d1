"""The five experiments: each plans on its profile; of their smoke sizes the stages of one train here, and another one
runs whole. `make soak` does it with the others, too.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from scripts.experiment.load import load_experiment
from scripts.experiment.machine_files import read_yaml
from scripts.experiment.settings.record import to_dict
from tests import forked
from tests.workflow.conftest import Clone, checkout

EXPERIMENTS = ["qwen2.5-7b-code", "qwen2.5-7b-code-dual", "two-stage-nope", "cpt-muon", "lora-qa"]


@pytest.fixture(scope="module")
def shared_clone(tmp_path_factory) -> Clone:
    """A clone with a commit, which the smoke sizes pin as their source, and data where two experiments want it."""
    clone = checkout(tmp_path_factory.mktemp("experiments") / "stagecraft")
    clone.commit()
    (clone.root / "results/smoke").mkdir(parents=True)
    row = ["stagecraft", "git", ".", clone.git("rev-parse", "HEAD"), "python", "high", "MIT"]
    head = ["name", "kind", "location", "pin", "language", "priority", "licence"]  # as `make smoke` writes it
    (clone.root / "results/smoke/sources.tsv").write_text("\t".join(head) + "\n" + "\t".join(row) + "\n")
    for name in ("text/one.md", "chat/python.jsonl", "chat/systems.jsonl"):
        (clone.root / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        (clone.root / "data" / name).write_text(json.dumps({"messages": turns}) + "\n")
    return clone


def command(file: Path) -> list[str]:
    """The command in the header of an experiment file."""
    return re.search(r"^#     snakemake (.*)$", file.read_text(), re.MULTILINE)[1].split()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiments_own_command_plans_every_stage(shared_clone, name):
    words = command(shared_clone.root / f"config/experiments/{name}.yaml")
    done = subprocess.run(
        [forked.python(), "-m", "snakemake", "-n", *words],
        cwd=shared_clone.root,
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]
    config = to_dict(load_experiment(read_yaml(Path(f"config/experiments/{name}.yaml"))))
    for stage in config["training"]["train"]:
        assert f"wildcards: stage={stage}\n" in output
    assert f"{config['results']}/eval.json" in words


def smoke(shared_clone: Clone, name: str) -> tuple[Path, dict]:
    """(results root, eval.json) of `make smoke`."""
    programs = [Path(forked.python()).parent, Path(sys.executable).parent]
    environment = {**os.environ, "PATH": ":".join([*map(str, programs), os.environ["PATH"]])}
    line = ["make", "--no-print-directory", "--old-file", "env", "smoke", f"EXPERIMENT={name}"]
    done = subprocess.run(line, cwd=shared_clone.root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    results = shared_clone.root / "results/smoke" / name
    evaluation = json.loads((results / "eval.json").read_text())
    assert f"verdict: {evaluation['verdict']}\nreport:  results/smoke/{name}/report.html\nuse it:  " in done.stdout
    again = shared_clone.snakemake("-n", *command(shared_clone.root / f"config/smoke/{name}.yaml"))
    assert "Nothing to be done" in again.stdout + again.stderr
    page = (results / "report.html").read_text()
    for gate in evaluation["gates"]:
        assert gate["name"] in page
    return results, evaluation


def trained(shared_clone: Clone, name: str, *stages: str) -> Path:
    """The results root of a smoke size whose stages were trained by its own command, and nothing after them."""
    results = shared_clone.root / "results/smoke" / name
    words = command(shared_clone.root / f"config/smoke/{name}.yaml")
    words = [word for word in words if not word.endswith("/eval.json")]
    targets = [f"results/smoke/{name}/training/train/{stage}/manifest.json" for stage in stages]
    shared_clone.snakemake(*targets, *words)
    return results


def summary(results: Path, stage: str, **expected) -> dict:
    """The summary of a stage, which holds `expected`."""
    measured = json.loads((results / f"training/train/{stage}/summary.json").read_text())
    assert {key: measured[key] for key in expected} == expected
    return measured


def weights(results: Path, model: str) -> dict[str, torch.Tensor]:
    files = (results / "training" / model).glob("*.safetensors")  # a converted model has its new biases beside
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def moved(results: Path, before: str, after: str) -> set[str]:
    """Names of the tensors that differ between two models; ZeRO rounds all of them, frozen ones too, to bf16."""
    first, second = weights(results, before), weights(results, after)
    assert set(first) == set(second)
    return {name for name in first if not torch.equal(first[name].bfloat16(), second[name].bfloat16())}


def logged(results: Path, stage: str, name: str) -> list[float]:
    lines = (results / f"training/train/{stage}/metrics.jsonl").read_text().splitlines()
    return [step[name] for step in map(json.loads, lines) if name in step]


@pytest.mark.soak
def test_qwen_code_runs_zero2_on_two_ranks_from_repositories_to_chats(shared_clone):
    results = trained(shared_clone, "qwen2.5-7b-code", "sft")
    summary(results, "sft", sharding="zero2", offload=False, processes=2, gradient_accumulation=2, steps=8)
    losses = logged(results, "sft", "loss")
    assert losses[-1] < losses[0]
    assert moved(results, "base", "train/sft") == set(weights(results, "base"))


@pytest.mark.soak
def test_qwen_code_dual_offloads_keeps_its_best_checkpoint_and_judges_the_stage_itself(shared_clone):
    results, evaluation = smoke(shared_clone, "qwen2.5-7b-code-dual")
    measured = summary(results, "sft", sharding="zero2", offload=True, processes=2)
    assert evaluation["inputs"]["sources"]["stagecraft"]["pin"] == shared_clone.git("rev-parse", "HEAD")
    losses = logged(results, "sft", "eval_loss")
    assert measured["eval_loss"] == pytest.approx(min(losses)) == pytest.approx(measured["best_eval_loss"])
    gates = {gate["metric"]: gate for gate in evaluation["gates"]}
    assert gates["loss"]["value"] == measured["eval_loss"]
    norms = sorted(logged(results, "sft", "grad_norm"))
    assert norms[0] < gates["gradient_norm"]["value"] < norms[-1]
    assert (gates["memory_gib"]["value"], gates["memory_gib"]["outcome"]) == (None, "not measured")
    assert evaluation["verdict"] == "not met"
    low, high = gates["answer_seconds"]["interval"]
    assert 0 < low <= gates["answer_seconds"]["value"] <= high


@pytest.mark.soak
def test_two_stage_nope_moves_only_the_changed_layers_first_and_stops_early(shared_clone):
    results = trained(shared_clone, "two-stage-nope", "adapt", "whole")
    for stage in ("adapt", "whole"):
        summary(results, stage, sharding="zero2", processes=2)
        config = json.loads((results / f"training/train/{stage}/config.json").read_text())
        assert (config["model_type"], config["no_rope_layers"]) == ("smollm3", [1, 1, 0, 0])
    changed = {name for name in weights(results, "base") if ".layers.2." in name or ".layers.3." in name}
    assert moved(results, "base", "train/adapt") == changed
    assert moved(results, "train/adapt", "train/whole") == set(weights(results, "base"))
    # the first of its evaluations every 2 steps is a gain, the next two are none, and it would have had 12 steps
    summary(results, "whole", steps=6, stopped_early=True)


@pytest.mark.soak
def test_cpt_muon_resolves_auto_settings_and_moves_all_hidden_matrices_with_muon(shared_clone):
    results = trained(shared_clone, "cpt-muon", "pretrain")
    base = weights(results, "base")
    hidden = [base[name] for name in base if ".layers." in name and base[name].ndim == 2]
    rate = float(f"{5e-5 * (sum(tensor.numel() for tensor in base.values()) / 7e9) ** -0.25:.3g}")
    summary(
        results,
        "pretrain",
        sharding="zero2",
        processes=2,
        muon_tensors=len(hidden),
        muon_parameters=sum(tensor.numel() for tensor in hidden),
        adamw_tensors=len(base) - len(hidden),
        learning_rate=rate,
        global_batch_size=8,
        steps=8,  # 4 epochs of 16 rows, of which there are more
    )
    rows = json.loads((results / "tokens/pack/text-256/manifest.json").read_text())["splits"]["train"]["rows"]
    assert rows > 16
    assert moved(results, "base", "train/pretrain") == set(base)


def test_lora_qa_saves_an_8_bit_trained_adapter_per_dataset_and_one_summary_over_all(shared_clone):
    results, evaluation = smoke(shared_clone, "lora-qa")
    base = (results / "training/base/manifest.json").read_bytes()
    for stage in ("qa_python", "qa_systems"):
        folder = results / "training/train" / stage
        assert not (folder / "model.safetensors").exists()
        adapter = json.loads((folder / "adapter_config.json").read_text())
        assert (adapter["r"], adapter["lora_alpha"], adapter["lora_dropout"]) == (8, 16, 0.05)
        assert adapter["target_modules"] == ["k_proj", "o_proj", "q_proj", "v_proj"]
        assert json.loads((folder / "manifest.json").read_text())["adapter"]["quantize"] == "8bit"
        assert (folder / adapter["base_model_name_or_path"] / "manifest.json").read_bytes() == base
    scores, over_all = evaluation["scores"], evaluation["summary"]
    assert [(row["dataset"], row["model"]) for row in over_all["datasets"]] == [
        ("python", "qa_python"),
        ("systems", "qa_systems"),
    ]
    for row in over_all["datasets"]:
        tuned, base = (
            scores[m]["perplexity"][row["dataset"]]["all"]["bits_per_byte"]["value"] for m in (row["model"], "base")
        )
        assert row["value"] == pytest.approx(tuned - base)
        # Of 7 and 8 chats: the correction for many comparisons may take "better" away, which it then says.
        assert row["value"] < 0 and row["direction"].startswith(("better", "no difference shown"))
    page = (results / "report.html").read_text()
    assert 'id="datasets"' in page
    assert "files seen" not in page
