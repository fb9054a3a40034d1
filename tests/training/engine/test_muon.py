"""scripts/training/engine/muon.py: its step and its groups; each parallel mode follows a single process and can
be resumed."""

import copy
import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from scripts.common.errors import UserError
from scripts.training.engine.muon import make_muon, muon_groups
from scripts.training.engine.parameters import split_parameters
from scripts.training.train import freeze_others
from tests.training.conftest import MACHINE, often, stage
from tests.training.engine.test_parallel import MODES, QUICK
from tests.training.test_train import command, metrics, run, run_on_ranks

MUON = stage(optimizer="muon")


def orthogonal(gradient: torch.Tensor) -> torch.Tensor:
    """The quintic Newton-Schulz iteration as Jordan et al. 2024 state it, in float64."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = gradient.double() / gradient.double().norm()
    x = x.T if gradient.shape[0] > gradient.shape[1] else x
    for _ in range(5):
        s = x @ x.T
        x = a * x + (b * s + c * s @ s) @ x
    return x.T if gradient.shape[0] > gradient.shape[1] else x


def step_all(model, optimizer, steps: int) -> None:
    for number in range(steps):
        generator = torch.Generator().manual_seed(number)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


def test_muon_steps_are_those_of_a_newton_schulz_iteration_written_out_here(model):
    weight = model.model.layers[0].mlp.up_proj.weight  # [64, 32]
    before, momentum = weight.detach().double(), torch.zeros(64, 32, dtype=torch.float64)
    step_all(model, make_muon(model, MUON, zero=False), 2)
    names = [name for name, _ in model.named_parameters()]
    for number in range(2):
        generator = torch.Generator().manual_seed(number)
        gradients = {
            name: torch.randn(p.shape, generator=generator) for name, p in zip(names, model.parameters(), strict=True)
        }
        gradient = gradients["model.layers.0.mlp.up_proj.weight"].double()
        momentum = 0.95 * momentum + 0.05 * gradient
        update = orthogonal(0.05 * gradient + 0.95 * momentum)
        before = before * (1 - 1e-2 * 0.01) - 1e-2 * 0.2 * math.sqrt(64) * update
    # torch runs the iteration in bfloat16: entries of the two updates differ by a few thousandths of a step
    assert (weight - before).abs().max() < 0.03 * 1e-2
    assert torch.nn.functional.cosine_similarity(weight.double().flatten(), before.flatten(), 0) > 0.99999


def test_beside_muon_adamw_moves_embeddings_norms_and_biases_as_torch_does(model, origin):
    reference_model = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float32)
    groups = split_parameters(reference_model)
    reference = torch.optim.AdamW(
        [{"params": groups["decayed"]}, {"params": groups["undecayed"], "weight_decay": 0.0}],
        lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01,
    )  # fmt: skip
    step_all(model, make_muon(model, MUON, zero=False), 3)
    step_all(reference_model, reference, 3)
    ours, theirs = dict(model.named_parameters()), dict(reference_model.named_parameters())
    for name in theirs:
        hidden = theirs[name].ndim == 2 and "embed" not in name
        assert torch.equal(ours[name], theirs[name]) is not hidden, name


def test_one_optimizer_goes_through_a_checkpoint_and_obeys_a_schedule(model, origin):
    def made(model):
        optimizer = make_muon(model, stage(optimizer="muon", learning_rate=3e-2), zero=False)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    optimizer, schedule = made(model)
    step_all(model, optimizer, 2)
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([1.5e-2] * 3)
    twin = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float32)
    twin.load_state_dict(model.state_dict())
    again, _ = made(twin)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # it would share the tensors
    step_all(model, optimizer, 3)
    step_all(twin, again, 3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_under_zero_a_step_and_its_decay_are_as_long_as_without(model):
    """DeepSpeed multiplies a matrix' rate by sqrt(max(1, rows / columns)), torch by 0.2 sqrt(max(rows, columns))."""
    settings = stage(optimizer="muon", learning_rate=3e-2, weight_decay=0.1)
    moved = 0
    for group in muon_groups(model, settings, zero=True):
        for parameter in group["params"] if group["use_muon"] else []:
            rows, columns = parameter.shape
            step = group["lr"] * math.sqrt(max(1, rows / columns))
            assert step == pytest.approx(3e-2 * 0.2 * math.sqrt(max(rows, columns)))
            assert group["lr"] * group["weight_decay"] == pytest.approx(3e-2 * 0.1)
            moved += 1
    assert moved == 14


def test_muon_without_a_matrix_to_move_is_refused(model):
    freeze_others(model, ["*norm*"])
    with pytest.raises(UserError, match="muon has nothing to do"):
        make_muon(model, MUON, zero=False)


@pytest.fixture(scope="module")
def muon_run(origin, shards, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("muon")
    done = run(origin, shards, folder, optimizer="muon")
    assert done.returncode == 0, done.stderr
    return folder


def test_summary_and_metrics_hold_what_muon_and_adamw_moved(muon_run):
    counts = {"muon_tensors": 14, "muon_parameters": 18432, "adamw_tensors": 12, "adamw_parameters": 16672}
    summary = json.loads((muon_run / "out/summary.json").read_text())
    steps = [entry for entry in metrics(muon_run / "out") if "loss" in entry]
    assert len(steps) == 12
    for record in (summary, *steps):
        assert {name: record[name] for name in counts} == counts


def resumed_at_8(straight: Path, folder: Path) -> None:
    """The work folder as a kill after step 8 leaves it."""
    shutil.copytree(straight / "work", folder / "work")
    shutil.rmtree(next((folder / "work").glob("*/checkpoint-12")))


def assert_same(folder: Path, straight: Path) -> None:
    """Bit for bit: the weights, and the loss of every step."""
    ours, theirs = load_file(folder / "out/model.safetensors"), load_file(straight / "out/model.safetensors")
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert losses(folder) == losses(straight)


def losses(folder: Path) -> list[float]:
    return [entry["loss"] for entry in metrics(folder / "out") if "loss" in entry]


def norms(folder: Path) -> list[float]:
    return [entry["grad_norm"] for entry in metrics(folder / "out") if "loss" in entry]


def test_muon_resumes_bit_for_bit(muon_run, origin, shards, tmp_path):
    resumed_at_8(muon_run, tmp_path)
    done = run(origin, shards, tmp_path, optimizer="muon")
    assert done.returncode == 0, done.stderr
    assert "resumes at step 8" in done.stderr
    assert_same(tmp_path, muon_run)


OFTEN = ["ddp", "zero2"]


@pytest.mark.parametrize("mode", often(OFTEN, [mode for mode in MODES if mode not in OFTEN]))
def test_muon_on_two_ranks_follows_a_single_process_and_resumes_bit_for_bit(muon_run, origin, shards, tmp_path, mode):
    sharding, offload = MODES[mode]
    machine = {**MACHINE, "micro_batch_size": 1, "sharding": sharding, "offload": offload}

    def done(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        result = run_on_ranks(command(origin, shards, folder, machine, optimizer="muon"), 2, QUICK)
        assert result.returncode == 0, result.stderr[-2000:]
        return folder

    straight = done("straight")
    assert losses(straight) == pytest.approx(losses(muon_run), abs=1e-2)
    assert norms(straight) == pytest.approx(norms(muon_run), rel=0.05), "not of the gradients before Muon's iteration"
    assert {entry["muon_parameters"] for entry in metrics(straight / "out") if "loss" in entry} == {18432}
    if mode in ("zero2", "fsdp2"):
        (tmp_path / "resumed").mkdir()
        resumed_at_8(straight, tmp_path / "resumed")
        assert_same(done("resumed"), straight)
