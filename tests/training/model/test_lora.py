"""scripts/training/model/lora.py: a merged adapter is the applied one; only it moves; a resumed run is a straight
one."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from scripts.common.errors import UserError
from scripts.common.files import sha256_file
from scripts.common.manifest import read_manifest
from scripts.training.model.loading import load_model
from scripts.training.model.lora import quantization_config
from tests.training.conftest import MACHINE, STAGE, VOCABULARY
from tests.training.engine.test_parallel import QUICK
from tests.training.test_train import command, metrics, run, run_on_ranks

# attention alone learns next to nothing on a random base
LORA = {**STAGE["lora"], "dropout": 0.2, "targets": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"]}
IDS = torch.arange(60).reshape(2, 30) * 7 % VOCABULARY


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(IDS).logits


def hashes(folder: Path) -> dict:
    return {path.name: sha256_file(path) for path in folder.iterdir() if path.is_file()}


@pytest.fixture(scope="module")
def adapter(origin, shards, tmp_path_factory) -> Path:
    """The folder of an undisturbed LoRA run, saved as an adapter; the base beside it is as it was before."""
    folder = tmp_path_factory.mktemp("adapter")
    before = hashes(origin)
    done = run(origin, shards, folder, method="lora", lora=LORA)
    assert done.returncode == 0, done.stderr
    assert hashes(origin) == before, "a stage must not touch the model it starts from"
    return folder


@pytest.fixture(scope="module")
def merged(origin, shards, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("merged")
    done = run(origin, shards, folder, method="lora", lora={**LORA, "merge": True})
    assert done.returncode == 0, done.stderr
    return folder


def test_merged_weights_the_applied_adapter_and_load_model_give_the_same_model(adapter, merged, origin):
    plain = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float32)
    untouched = logits(plain)
    applied = logits(PeftModel.from_pretrained(plain, str(adapter / "out")))  # peft's own path, nothing merged
    assert (applied - untouched).abs().max() > 1e-2
    alone = AutoModelForCausalLM.from_pretrained(merged / "out", dtype=torch.float32)
    torch.testing.assert_close(logits(alone), applied, atol=1e-5, rtol=0)
    torch.testing.assert_close(logits(load_model(adapter / "out", torch.float32)), applied, atol=1e-5, rtol=0)
    assert not (merged / "out/adapter_config.json").exists() and "adapter" not in read_manifest(merged / "out")


def test_merging_rounds_once_and_keeps_the_precision_of_the_base(origin, adapter, tmp_path):
    from scripts.training.model.loading import merge_adapter

    half = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.bfloat16)
    before = {name: tensor.clone() for name, tensor in half.state_dict().items()}
    after = merge_adapter(half, adapter / "out").state_dict()
    weights = load_file(adapter / "out/adapter_model.safetensors")
    for name, tensor in after.items():
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{stem}.lora_A.weight" in weights:
            delta = 2 * weights[f"{stem}.lora_B.weight"] @ weights[f"{stem}.lora_A.weight"]  # alpha / r = 2
            expected = (before[name].float() + delta).bfloat16()
        else:
            expected = before[name]
        assert tensor.dtype == torch.bfloat16 and torch.equal(tensor, expected), name


def test_only_the_targets_of_the_adapter_moved(merged, origin):
    before, after = load_file(origin / "model.safetensors"), load_file(merged / "out/model.safetensors")
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if name.split(".")[-2] in LORA["targets"] and name.endswith("weight")}


def test_steps_and_resume_equal_an_uninterrupted_run_bit_for_bit_with_dropout(adapter, origin, shards, tmp_path):
    """The work folder as a kill after step 8 leaves it: the later checkpoint and the later log lines are not there."""
    shutil.copytree(adapter / "work", tmp_path / "work")
    work = next((tmp_path / "work").iterdir())
    shutil.rmtree(work / "checkpoint-12")
    done = run(origin, shards, tmp_path, method="lora", lora=LORA)
    assert done.returncode == 0, done.stderr
    assert "resumes at step 8" in done.stderr
    ours, theirs = (load_file(folder / "out/adapter_model.safetensors") for folder in (tmp_path, adapter))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert [entry.get("loss") for entry in metrics(tmp_path / "out")] == [
        entry.get("loss") for entry in metrics(adapter / "out")
    ]


def test_four_bits_are_nf4_with_quantized_constants_as_in_qlora():
    config = quantization_config("4bit", torch.bfloat16)
    assert (config.load_in_4bit, config.bnb_4bit_quant_type, config.bnb_4bit_use_double_quant) == (True, "nf4", True)
    assert config.bnb_4bit_compute_dtype == torch.bfloat16
    assert (
        quantization_config("8bit", torch.bfloat16).load_in_8bit and quantization_config("none", torch.bfloat16) is None
    )


@pytest.mark.parametrize("quantize", ["8bit", "4bit"])
def test_a_quantized_base_trains_an_adapter_and_merges_into_the_weights_as_saved(origin, shards, tmp_path, quantize):
    """bitsandbytes has kernels for the CPU too. What was merged is the unquantized base plus the adapter."""
    pytest.importorskip("bitsandbytes")
    before = hashes(origin)
    done = run(origin, shards, tmp_path, method="lora", quantize=quantize, lora={**LORA, "merge": True})
    assert done.returncode == 0, done.stderr
    assert hashes(origin) == before
    losses = [entry["loss"] for entry in metrics(tmp_path / "out") if "loss" in entry]
    assert losses[-1] < losses[0]
    saved, after = load_file(origin / "model.safetensors"), load_file(tmp_path / "out/model.safetensors")
    assert {tensor.dtype for tensor in after.values()} == {torch.float32}
    for name, tensor in after.items():
        if name.endswith("mlp.gate_proj.weight"):
            assert torch.equal(tensor, saved[name]), "quantized while it trained, but never saved so"
    difference = after["model.layers.0.self_attn.q_proj.weight"] - saved["model.layers.0.self_attn.q_proj.weight"]
    assert 0 < torch.linalg.matrix_rank(difference, atol=1e-6) <= LORA["r"]
    weights = sum(tensor.numel() for tensor in saved.values())
    adapters = 0
    for name, tensor in saved.items():
        if name.removesuffix(".weight").endswith(tuple(LORA["targets"])):
            adapters += LORA["r"] * sum(tensor.shape)
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["parameters"] == weights + adapters  # 4-bit weights lie two in a byte


def test_a_stage_may_start_from_an_adapter(adapter, shards, tmp_path):
    for method in ("full", "lora"):
        folder = tmp_path / method
        folder.mkdir()
        done = run(adapter / "out", shards, folder, method=method, lora=LORA, steps=2, warmup_steps=1)
        assert done.returncode == 0, done.stderr
        first = next(entry["loss"] for entry in metrics(folder / "out") if "loss" in entry)
        start = next(entry["loss"] for entry in metrics(adapter / "out") if "loss" in entry)
        assert first < start - 0.01
        assert (folder / "out/adapter_config.json").exists() == (method == "lora")
        load_model(folder / "out", torch.float32)
    trained = load_file(tmp_path / "full/out/model.safetensors")
    began = load_model(adapter / "out", torch.float32).state_dict()
    assert not torch.equal(trained["model.embed_tokens.weight"], began["model.embed_tokens.weight"])


def test_an_adapter_whose_base_changed_or_is_gone_is_refused(adapter, origin, tmp_path):
    base, out = tmp_path / "base", tmp_path / "out"
    shutil.copytree(origin, base)
    shutil.copytree(adapter / "out", out)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["adapter"]["base"] = "../base"
    (out / "manifest.json").write_text(json.dumps(manifest))
    load_model(out, torch.float32)
    (base / "manifest.json").write_text((base / "manifest.json").read_text() + " ")
    with pytest.raises(UserError, match="is not the model that the adapter was trained on"):
        load_model(out, torch.float32)
    (base / "manifest.json").write_bytes((origin / "manifest.json").read_bytes())
    (base / "model.safetensors").write_bytes(b"x")
    with pytest.raises(UserError, match=r"model\.safetensors: 1 bytes, its manifest says"):
        load_model(out, torch.float32)
    shutil.rmtree(base)
    with pytest.raises(UserError, match="was not found; copy it too"):
        load_model(out, torch.float32)


def test_a_target_that_the_model_does_not_have_is_a_one_line_error(origin, shards, tmp_path):
    done = run(origin, shards, tmp_path, method="lora", lora={**LORA, "targets": ["q_proj", "query"]})
    assert done.returncode == 1
    assert "training.train.tiny.lora.targets: no linear layer 'query'" in done.stderr.splitlines()[-1]
    assert (
        "use `all-linear`, or some of down_proj, gate_proj, k_proj, o_proj, q_proj, up_proj, v_proj"
        in done.stderr.splitlines()[-1]
    )


@pytest.mark.soak
def test_by_default_all_linear_layers_but_the_head_are_adapted_and_merge_on_ranks_that_shard(origin, shards, tmp_path):
    """The merge loads the base on one rank alone; under ZeRO-3 such a load would wait for the others for ever."""
    lora = {"r": 8, "dropout": 0.0, "merge": True}
    machine = {**MACHINE, "micro_batch_size": 1, "sharding": "zero3", "collective_timeout": 60}
    done = run_on_ranks(command(origin, shards, tmp_path, machine, method="lora", lora=lora), 2, QUICK)
    assert done.returncode == 0, done.stderr[-2000:]
    before, after = load_file(origin / "model.safetensors"), load_file(tmp_path / "out/model.safetensors")
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if name.endswith("_proj.weight")}
