"""scripts/training/model/compiled.py: it runs where it can and may, and trains the same model."""

import json
import os
import subprocess

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

from scripts.experiment.settings.machine import Machine
from scripts.training.model import kernels
from scripts.training.model.chunked_loss import use_chunked_loss
from scripts.training.model.compiled import choose_compile, compile_layers
from tests.training.conftest import MACHINE, SHAPE, VOCABULARY, often, stage
from tests.training.test_train import command, metrics, on_ranks, run

GPU = {**MACHINE, "gpus": 1}
RANKS = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}  # as the launcher sets for a CPU


@pytest.mark.parametrize(
    ("machine", "compiler", "quantize", "expected"),
    [
        (MACHINE, True, "none", False),
        (GPU, False, "none", False),
        (GPU, True, "none", True),
        (GPU, True, "4bit", True),
        (GPU, True, "8bit", False),
        ({**GPU, "sharding": "zero2"}, True, "none", True),
        ({**GPU, "sharding": "zero3"}, True, "none", False),
        ({**GPU, "sharding": "fsdp2"}, True, "none", False),
        ({**GPU, "sharding": "fsdp2", "compile": True}, True, "none", True),
        ({**GPU, "compile": False}, True, "none", False),
    ],
)
def test_layers_are_compiled_where_they_can_be_and_the_machine_file_allows_it(
    monkeypatch, machine, compiler, quantize, expected
):
    monkeypatch.setattr(kernels.shutil, "which", lambda name: "/usr/bin/cc" if compiler else None)
    settings = stage(method="lora", quantize=quantize, precision="bf16")
    assert choose_compile(Machine.parse(machine, "test"), settings) is expected


def test_without_a_c_compiler_a_stage_that_must_be_compiled_ends_before_it_trains(
    origin, shards, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    done = run(origin, shards, tmp_path, {**MACHINE, "compile": True})
    assert done.returncode == 1
    line = "error: machine: `compile: true` needs a C compiler, as `gcc`; or use `auto`, which leaves it off here"
    assert done.stderr.splitlines()[-1] == line
    assert not (tmp_path / "out").exists()


def losses(compiled: bool, lora: bool, recomputed: int) -> tuple[list[float], list[str]]:
    """The losses of three steps, and the names of the weights."""
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**SHAPE | {"num_hidden_layers": 3}, vocab_size=VOCABULARY, use_cache=False))
    if lora:
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    model.train()
    if recomputed:
        model.activation_checkpointing_enable(activation_checkpointing_kwargs={"use_reentrant": False})
    if compiled:
        assert compile_layers(model) == 3
    use_chunked_loss(model, "none", "", compiled)
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=1e-2)
    seen = []
    for step in range(3):
        ids = torch.arange(2 * (40 + step)).reshape(2, -1) % 11  # 80 to 84 tokens: two chunks and a rest
        loss = model(input_ids=ids, labels=ids, num_items_in_batch=ids.numel() - 2).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.item())
    return seen, [name for name, _ in model.named_parameters()]


@pytest.mark.parametrize(("lora", "recomputed"), often([(False, 2)], [(True, 0)]))
def test_compiled_layers_and_loss_train_the_same_model(monkeypatch, lora, recomputed):
    """In float32 on the CPU; weights keep their names, so that checkpoints are the same files."""
    # torch's C++ builder imports setuptools, which refuses where another test has imported distutils before
    monkeypatch.setenv("SETUPTOOLS_USE_DISTUTILS", "stdlib")
    monkeypatch.setattr("scripts.training.model.chunked_loss.COMPILED_CHUNK", 32)
    monkeypatch.setattr("scripts.training.model.chunked_loss.CHUNK", 8)
    plain, names = losses(False, lora, recomputed)
    compiled, same = losses(True, lora, recomputed)
    assert compiled == pytest.approx(plain, abs=1e-5)
    assert same == names
    assert plain[2] < plain[0] - 0.01


@pytest.mark.soak
@pytest.mark.parametrize("sharding", ["zero2", "none", "fsdp2"])
def test_a_compiled_stage_on_two_ranks_has_the_losses_of_one_that_is_not(origin, shards, tmp_path, sharding):
    seen = []
    for compiled in (False, True):
        folder = tmp_path / str(compiled)
        folder.mkdir()
        machine = {**MACHINE, "micro_batch_size": 1, "sharding": sharding, "compile": compiled}
        words = on_ranks(command(origin, shards, folder, machine, steps=6, save_steps=100), 2)
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=RANKS)
        assert done.returncode == 0, done.stderr[-3000:]
        seen.append([entry["loss"] for entry in metrics(folder / "out") if "loss" in entry])
        assert json.loads((folder / "out/summary.json").read_text())["compiled"] is compiled
    assert seen[1] == pytest.approx(seen[0], abs=1e-4)
