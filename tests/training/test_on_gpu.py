"""Training and generation on a real GPU: the same numbers as on the CPU, in every mode. `make gpu` runs these tests.

They need one CUDA GPU of compute capability 8.0 or more, and are not among those of `make test`.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig

from scripts.training.base import base
from scripts.training.model.attention import collator_for
from scripts.training.model.kernel_trials import VOCABULARY as TWIN_VOCABULARY
from scripts.training.model.kernel_trials import twin
from scripts.training.model.kernels import EAGER, VARLEN, architecture
from tests.training.conftest import MACHINE, STAGE, scratch
from tests.training.test_train import command, metrics, on_ranks

pytestmark = pytest.mark.gpu
GPU = {**MACHINE, "gpus": 1}
SHAPE = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}  # heads of 64
LORA = {**STAGE["lora"], "dropout": 0, "targets": "all-linear", "merge": True}
ENVIRONMENT = dict(os.environ)


@pytest.fixture(scope="module")
def origin(tmp_path_factory, tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("base")
    base(scratch(shape=SHAPE), 1, tokenizer, folder)
    return folder


@pytest.fixture(scope="module")
def stage_run(origin, shards, tmp_path_factory):
    """stage_run(machine, **changes): the folder of a finished run of the tiny stage, made once."""
    made = {}

    def get(machine: dict, **changes) -> Path:
        key = json.dumps([machine, changes], sort_keys=True)
        if key not in made:
            folder = tmp_path_factory.mktemp("run")
            start(origin, shards, folder, machine, **changes)
            made[key] = folder
        return made[key]

    return get


def start(origin: Path, shards: Path, folder: Path, machine: dict, **changes) -> str:
    """Run the tiny stage without the launcher, which would wait for a card that another test uses; what it logged."""
    words = on_ranks(command(origin, shards, folder, machine, **changes), 1)
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder / "log").write_text(done.stderr)
    return done.stderr


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in metrics(folder / "out") if "loss" in entry]


def summary(folder: Path) -> dict:
    return json.loads((folder / "out/summary.json").read_text())


def gradient(model, logits: torch.Tensor) -> torch.Tensor:
    """The gradient [parameters] of a loss on random targets: to many twins their own input is a certain target."""
    targets = torch.randint(1, TWIN_VOCABULARY, (len(logits),), generator=torch.Generator().manual_seed(2))
    model.zero_grad()
    torch.nn.functional.cross_entropy(logits, targets.cuda()).backward()
    return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])


def packed(model, documents: list[torch.Tensor], kernel: str) -> tuple[torch.Tensor, torch.Tensor]:
    """(logits [tokens, vocabulary], gradient [parameters]) of one row of packed documents, in bf16 as a stage runs."""
    model.set_attn_implementation(kernel)
    tokens = torch.cat(documents)
    positions = torch.cat([torch.arange(len(document)) for document in documents])
    batch = collator_for(kernel)([{"input_ids": tokens, "position_ids": positions, "labels": tokens}])
    del batch["labels"]
    for name, value in batch.items():
        batch[name] = value.cuda() if isinstance(value, torch.Tensor) else value
    with torch.autocast("cuda", torch.bfloat16, enabled=kernel != EAGER):
        logits = model(**batch, use_cache=False).logits[0].float()
    return logits.detach(), gradient(model, logits)


def alone(model, documents: list[torch.Tensor], bf16: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with eager attention, the documents one by one."""
    model.set_attn_implementation(EAGER)
    with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
        logits = [model(input_ids=document.cuda()[None], use_cache=False).logits[0].float() for document in documents]
    logits = torch.cat(logits)
    return logits.detach(), gradient(model, logits)


def error(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return ((ours - exact).norm() / exact.norm()).item()


@pytest.mark.parametrize(
    "model_type", ["qwen2", "qwen3", "llama", "smollm3", "mistral", "phi3", "gemma2", "gemma3_text"]
)
def test_a_kernel_is_right_on_the_gpu_where_the_trial_on_the_cpu_says_so(model_type, tmp_path, monkeypatch):
    """Beside float32 it may be off by what bf16 costs eager attention, the documents one by one; and no more."""
    monkeypatch.setattr("scripts.training.model.kernels.architecture_file", lambda name: tmp_path / name)
    AutoConfig.for_model(model_type).save_pretrained(tmp_path / "model")
    known = architecture(tmp_path / "model")
    model = twin(AutoConfig.from_pretrained(tmp_path / "model")).cuda()
    generator = torch.Generator().manual_seed(1)
    documents = [torch.randint(1, TWIN_VOCABULARY, (length,), generator=generator) for length in (199, 3, 312)]
    exact, rounded = alone(model, documents, bf16=False), alone(model, documents, bf16=True)
    allowed = [2 * error(ours, other) for ours, other in zip(rounded, exact, strict=True)]
    tried = []
    for kernel, reason in known.wrong.items():
        if reason or kernel == EAGER:
            continue
        errors = [error(ours, other) for ours, other in zip(packed(model, documents, kernel), exact, strict=True)]
        right = all(ours < most for ours, most in zip(errors, allowed, strict=True))
        assert right, f"{kernel}: {errors}, allowed {allowed}"
        tried.append(kernel)
    assert tried


def test_a_float32_stage_has_the_losses_and_weights_of_the_cpu(stage_run):
    ours, theirs = stage_run(GPU), stage_run(MACHINE)
    assert losses(ours) == pytest.approx(losses(theirs), abs=1e-4)
    assert summary(ours)["eval_loss"] == pytest.approx(summary(theirs)["eval_loss"], abs=1e-4)
    weights, others = load_file(ours / "out/model.safetensors"), load_file(theirs / "out/model.safetensors")
    for name, weight in weights.items():
        torch.testing.assert_close(weight, others[name], rtol=0, atol=2e-3)


def test_a_bf16_stage_runs_the_varlen_kernel_and_follows_float32(stage_run):
    ours = stage_run(GPU, precision="bf16")
    assert summary(ours)["attention"] == VARLEN
    assert losses(ours) == pytest.approx(losses(stage_run(GPU)), abs=0.05)


@pytest.mark.parametrize("sharding", ["zero2", "zero3", "fsdp2"])
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), ("bf16", 0.05)])
def test_every_sharding_gives_the_losses_of_an_unsharded_stage(stage_run, sharding, precision, tolerance):
    ours, plain = stage_run({**GPU, "sharding": sharding}, precision=precision), stage_run(GPU, precision=precision)
    assert f"sharding {sharding}" in (ours / "log").read_text()
    assert losses(ours) == pytest.approx(losses(plain), abs=tolerance)
    assert summary(ours)["eval_loss"] == pytest.approx(summary(plain)["eval_loss"], abs=tolerance)


def test_an_optimizer_in_host_memory_gives_the_losses_of_one_on_the_gpu(stage_run):
    ours = stage_run({**GPU, "sharding": "zero2", "offload": True})
    assert losses(ours) == pytest.approx(losses(stage_run(GPU)), abs=1e-4)


def test_checkpointed_activations_change_nothing(stage_run):
    ours = stage_run({**GPU, "gradient_checkpointing": True}, precision="bf16")
    assert losses(ours) == pytest.approx(losses(stage_run(GPU, precision="bf16")), abs=0.01)


def test_muon_on_the_gpu_follows_the_cpu(stage_run):
    ours, theirs = stage_run(GPU, optimizer="muon"), stage_run(MACHINE, optimizer="muon")
    assert losses(ours) == pytest.approx(losses(theirs), abs=0.05)  # Newton-Schulz runs in bf16


def test_compiled_layers_give_the_losses_of_transformers_own_code(stage_run):
    compiled, plain = (stage_run({**GPU, "compile": compiled}, precision="bf16") for compiled in (True, False))
    assert (summary(compiled)["compiled"], summary(plain)["compiled"]) == (True, False)
    assert losses(compiled) == pytest.approx(losses(plain), abs=0.05)


@pytest.mark.parametrize("quantize", ["none", "8bit", "4bit"])
def test_adapters_learn_on_a_quantized_base_and_are_merged_into_the_saved_weights(stage_run, origin, quantize):
    ours = stage_run(GPU, method="lora", lora=LORA, quantize=quantize, precision="bf16")
    plain = stage_run(GPU, method="lora", lora=LORA, precision="bf16")
    assert losses(ours)[-1] < losses(ours)[0] - 0.1
    assert losses(ours) == pytest.approx(losses(plain), abs=0.1)
    before, after = load_file(origin / "model.safetensors"), load_file(ours / "out/model.safetensors")
    assert before.keys() == after.keys()
    for name, weight in after.items():
        if "norm" in name or "embed" in name:
            assert torch.equal(weight, before[name]), name
    count = sum(weight.numel() for weight in before.values())
    assert count < summary(ours)["parameters"] < 1.2 * count  # with the adapters


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_resumed_stage_ends_with_the_weights_of_an_uninterrupted_one(stage_run, origin, shards, tmp_path, precision):
    straight = stage_run(GPU, precision=precision)
    shutil.copytree(straight / "work", tmp_path / "work")
    [work] = (tmp_path / "work").iterdir()
    shutil.rmtree(work / "checkpoint-12")  # as a kill after step 8 leaves it
    assert "resumes at step 8" in start(origin, shards, tmp_path, GPU, precision=precision)
    ours, theirs = load_file(tmp_path / "out/model.safetensors"), load_file(straight / "out/model.safetensors")
    assert losses(tmp_path) == losses(straight)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_card_is_named_and_its_figures_are_logged(stage_run):
    folder = stage_run(GPU, precision="bf16")
    card = torch.cuda.get_device_name()
    assert card in (folder / "out/environment.json").read_text()
    last = [entry for entry in metrics(folder / "out") if "loss" in entry][-1]
    assert 0 < last["memory_allocated_gib"] < torch.cuda.get_device_properties(0).total_memory / 2**30
    assert {"gpu_utilisation", "gpu_power_w", "gpu_temperature_c"} <= last.keys()


def test_the_launcher_takes_a_card_and_asks_for_no_more_than_there_are(origin, shards, tmp_path):
    more = {**GPU, "gpus": torch.cuda.device_count() + 1}
    leases = {**ENVIRONMENT, "STAGECRAFT_GPU_LEASES": str(tmp_path / "leases")}
    words = command(origin, shards, tmp_path, more)
    refused = subprocess.run(words, capture_output=True, text=True, check=False, env=leases)
    assert refused.returncode == 1 and refused.stderr.strip().splitlines()[-1].startswith("error: machine: ")
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"
    words = [sys.executable, "-m", "scripts.hosts.gpus", "--machine", str(tmp_path / "machine.yaml"), "--count", "1"]
    (tmp_path / "machine.yaml").write_text(json.dumps(GPU))
    taken = subprocess.run(
        [*words, sys.executable, "-c", code], capture_output=True, text=True, check=False, env=leases
    )
    assert taken.returncode == 0, taken.stderr
    assert taken.stdout.strip()


def test_greedy_text_and_likelihood_on_the_gpu_are_those_of_the_cpu(stage_run, tmp_path):
    folder = stage_run(GPU) / "out"
    program = (
        "import json, sys; from pathlib import Path; import torch;"
        "from scripts.evaluation.generation.model import load;"
        "from scripts.experiment.settings.suites import Generation;"
        "model = load(Path(sys.argv[1])); settings = Generation(max_new_tokens=16);"
        "texts, _ = model.generate([f'w{n} w{n + 1}' for n in range(40, 60)], settings, seed=1);"
        "print(json.dumps([str(model.model.device), texts]))"
    )
    results = []
    for cards in ("0", ""):
        words = [sys.executable, "-c", program, str(folder)]
        environment = {**ENVIRONMENT, "CUDA_VISIBLE_DEVICES": cards}
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr[-3000:]
        results.append(json.loads(done.stdout.splitlines()[-1]))
    (on_gpu, ours), (on_cpu, theirs) = results
    assert (on_gpu, on_cpu) == ("cuda:0", "cpu")
    same = np.mean([one == other for one, other in zip(ours, theirs, strict=True)])
    assert same >= 0.9  # a near tie may fall the other way
