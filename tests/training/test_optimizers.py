"""scripts/training/optimizers.py, automatic.py, stopping.py: Muon's step, schedules, freezing, the best model."""

import copy
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, get_scheduler

from scripts.common.cli import UserError
from scripts.common.config import check
from scripts.tokens.shards import Shards
from scripts.training.automatic import global_batch, learning_rate, resolved, steps_of
from scripts.training.optimizers import factory, freeze, make_muon, optimizer_arguments, split
from scripts.training.stopping import without_gain
from scripts.training.trainer import PackedRows, stack
from tests.training.conftest import LENGTH, MACHINE, STAGE
from tests.training.test_train import command, metrics, run

MUON = {**STAGE, "optimizer": "muon"}


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


@pytest.fixture
def model(origin):
    return AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float32)


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
    other = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float32)
    parts = split(other)
    reference = torch.optim.AdamW(
        [{"params": parts["decayed"]}, {"params": parts["undecayed"], "weight_decay": 0.0}],
        lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01,
    )  # fmt: skip
    step_all(model, make_muon(model, MUON, zero=False), 3)
    step_all(other, reference, 3)
    ours, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    for name in theirs:
        hidden = theirs[name].ndim == 2 and "embed" not in name
        assert torch.equal(ours[name], theirs[name]) is not hidden, name


def test_one_optimizer_goes_through_a_checkpoint_and_obeys_a_schedule(model, origin):
    def made(model):
        optimizer = make_muon(model, {**MUON, "muon_learning_rate": 3e-2}, zero=False)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    optimizer, schedule = made(model)
    step_all(model, optimizer, 2)
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([5e-3, 5e-3, 1.5e-2])
    twin = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float32)
    twin.load_state_dict(model.state_dict())
    again, _ = made(twin)
    again.load_state_dict(copy.deepcopy(optimizer.state_dict()))  # it would share the tensors
    step_all(model, optimizer, 3)
    step_all(twin, again, 3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def test_muon_fits_the_tiny_model_to_its_rows_better_than_adamw(origin, shards):
    """All rows as one batch, 30 steps, linear decay, each at its best rate.

    It is no law: at rates up to 0.03 the two are equal here or AdamW is slightly ahead, and on a linear regression with
    white inputs (singular values of the target over two decades) AdamW's best loss was 14 times lower than Muon's.
    """
    rows = PackedRows(Shards(shards, "train"))
    batch = stack([rows[index] for index in range(len(rows))])

    def fitted(make, rate: float) -> float:
        model = AutoModelForCausalLM.from_pretrained(origin, dtype=torch.float32)
        optimizer = make(model, rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 30)
        for _ in range(30):
            optimizer.zero_grad()
            loss = model(**batch, use_cache=False).loss
            loss.backward()
            optimizer.step()
            schedule.step()
        return loss.item()

    def muon(model, rate):
        return make_muon(model, {**MUON, "learning_rate": rate}, zero=False)

    def adamw(model, rate):
        return torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.01)

    losses = {make: {rate: fitted(make, rate) for rate in (3e-2, 1e-1, 3e-1)} for make in (muon, adamw)}
    print({make.__name__: found for make, found in losses.items()})
    assert min(losses[muon].values()) < min(losses[adamw].values())


@pytest.mark.parametrize(
    ("scheduler", "closed"),
    [
        ("cosine", lambda t: 0.5 * (1 + math.cos(math.pi * (t - 10) / 90))),
        ("linear", lambda t: (100 - t) / 90),
        ("constant", lambda t: 1.0),
        ("warmup-stable-decay", lambda t: 1.0 if t < 80 else 1 - math.sqrt((t - 80) / 20)),
    ],
)
def test_the_schedules_are_their_closed_forms(scheduler, closed):
    stage = {**STAGE, "scheduler": scheduler, "warmup_steps": 10}
    made = optimizer_arguments(stage, MACHINE, 100)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_scheduler(made["lr_scheduler_type"], optimizer, 10, 100, made.get("lr_scheduler_kwargs"))
    for step in range(100):
        expected = step / 10 if step < 10 else closed(step)
        assert schedule.get_last_lr()[0] == pytest.approx(expected, abs=1e-9), step
        optimizer.step()
        schedule.step()


def test_a_pattern_freezes_all_that_it_does_not_name_and_must_match(model):
    assert freeze(model, ["*.1.self_attn.?_proj.weight", "model.norm.*"]) == [
        *(f"model.layers.1.self_attn.{letter}_proj.weight" for letter in "qkvo"),
        "model.norm.weight",
    ]
    assert sum(parameter.requires_grad for parameter in model.parameters()) == 5
    with pytest.raises(UserError, match=r"^trainable: '\*\.7\.\*' matches no parameter; they are named as 'model\."):
        freeze(model, ["*.1.*", "*.7.*"])


def test_muon_without_a_matrix_to_move_is_refused(model):
    freeze(model, ["*norm*"])
    with pytest.raises(UserError, match="muon has nothing to do"):
        make_muon(model, MUON, zero=False)


def test_8_bit_moments_are_refused_where_they_would_be_sharded():
    with pytest.raises(UserError, match="adamw_8bit cannot run with `sharding: zero2`"):
        factory({**STAGE, "optimizer": "adamw_8bit"}, {**MACHINE, "sharding": "zero2"})


def test_auto_follows_the_stated_rules_and_their_bounds():
    assert learning_rate(7_000_000_000) == 5e-5
    assert learning_rate(7_000_000_000 // 16) == pytest.approx(1e-4, rel=1e-2)
    for parameters, tokens in ((5e8, 5e7), (7e9, 5e7), (7e9, 1e9), (7e9, 1e10)):
        rows = global_batch(int(parameters), int(tokens), 4096)
        deepseek = 0.2920 * (6 * parameters * tokens) ** 0.3271
        assert rows % 8 == 0
        assert 0.4 < rows * 4096 / deepseek < 2.5
    assert global_batch(35_000, 960, 32) == 8
    assert global_batch(7 * 10**10, 10**13, 4096) * 4096 == 2**22
    stage = {**STAGE, "learning_rate": "auto", "global_batch": "auto"}
    assert resolved(stage, None, 100)["global_batch"] == "auto"
    assert resolved(stage, 7_000_000_000, 10**6)["learning_rate"] == 5e-5
    assert steps_of({"epochs": 2, "global_batch": 4, "max_samples": 9}, 30) == 6


def test_patience_counts_evaluations_since_the_last_gain():
    assert without_gain([3, 2, 2.5, 2.1], 0) == 2
    assert without_gain([3, 2.95, 2.91, 2.7], 0.1) == 0
    assert without_gain([3, 2.95, 2.91], 0.1) == 2
    assert without_gain([], 0) == 0


CONTRADICTIONS = [
    ({"warmup_share": 0.1, "warmup_steps": 5}, "warmup_share: give either this or `warmup_steps`"),
    ({"decay_share": 0.1}, "decay_share: only with `scheduler: warmup-stable-decay`"),
    ({"muon_learning_rate": 0.1}, "muon_learning_rate: only with `optimizer: muon`"),
    ({"optimizer": "muon", "clip": 1.0}, "clip: not with `optimizer: muon`"),
    ({"optimizer": "muon", "method": "lora"}, "optimizer: muon trains whole matrices"),
    ({"learning_rate": "auto", "method": "lora"}, "learning_rate: `auto` is for `method: full`"),
    ({"scheduler": "warmup-stable-decay", "warmup_share": 0.9}, "scheduler: warm-up and decay together are longer"),
    ({"learning_rate": "fast"}, "learning_rate: 'fast' does not match"),
    ({"trainable": "some"}, "trainable: 'some' does not match"),
    ({"trainable": []}, "trainable: [] should be non-empty"),
    ({"early_stopping": {}}, "early_stopping: 'patience' is a required property"),
    ({"optimizer": "sgd"}, "optimizer: 'sgd' is not one of"),
]


@pytest.mark.parametrize(("changes", "says"), CONTRADICTIONS, ids=[says.split(":")[0] for _, says in CONTRADICTIONS])
def test_contradictions_are_one_line(changes, says):
    config = yaml.safe_load(Path("config/config.yaml").read_text())
    name, stage = next(iter(config["training"]["train"].items()))
    stage.pop("epochs", None)
    for setting in ("clip", "warmup_steps", "learning_rate"):
        stage.pop(setting, None)
    stage |= {"learning_rate": 1e-4, "steps": 100, **changes}
    with pytest.raises(UserError) as caught:
        check(config)
    assert f"training.train.{name}.{says}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def muon_run(origin, shards, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("muon")
    done = run(origin, shards, folder, optimizer="muon")
    assert done.returncode == 0, done.stderr
    return folder


def test_muon_says_in_summary_and_metrics_what_it_moved(muon_run):
    counts = {"muon_tensors": 14, "muon_parameters": 18432, "adamw_tensors": 12, "adamw_parameters": 16672}
    summary = json.loads((muon_run / "out/summary.json").read_text())
    steps = [entry for entry in metrics(muon_run / "out") if "loss" in entry]
    assert len(steps) == 12
    for said in (summary, *steps):
        assert {name: said[name] for name in counts} == counts


@pytest.mark.parametrize("sharding", ["none", "zero2"])
def test_muon_on_two_ranks_follows_a_single_process(muon_run, origin, shards, tmp_path, sharding):
    words = command(origin, shards, tmp_path, {**MACHINE, "micro_batch": 1, "sharding": sharding}, optimizer="muon")
    module = words.index("scripts.training.train")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    words = [*torchrun, words[module], *words[words.index("--machine") : module], *words[module + 1 :]]
    # DeepSpeed compiles its iteration, which takes a minute and changes nothing here
    quick = {**os.environ, "TORCHDYNAMO_DISABLE": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=quick)
    assert done.returncode == 0, done.stderr[-2000:]
    one = [entry["loss"] for entry in metrics(muon_run / "out") if "loss" in entry]
    entries = [entry for entry in metrics(tmp_path / "out") if "loss" in entry]
    assert [entry["loss"] for entry in entries] == pytest.approx(one, abs=1e-2)
    assert {entry["muon_parameters"] for entry in entries} == {18432}


RESUMED = [
    {
        "optimizer": "muon",
        "keep_best": True,
        "early_stopping": {"patience": 2, "min_delta": 10.0},
        "learning_rate": 0.1,
    },
    {"optimizer": "adamw_8bit", "max_samples": 17, "scheduler": "warmup-stable-decay", "trainable": ["*mlp*"]},
]


@pytest.mark.parametrize("changes", RESUMED, ids=["muon, best, early stop", "8 bits, frozen"])
def test_a_resumed_run_ends_as_a_straight_one_bit_for_bit(origin, shards, tmp_path, changes):
    changes = {**changes, "steps": 12, "eval_steps": 2, "save_steps": 3, "keep_checkpoints": 1}
    done = run(origin, shards, tmp_path, **changes)
    assert done.returncode == 0, done.stderr
    straight, summary = (
        load_file(tmp_path / "out/model.safetensors"),
        json.loads((tmp_path / "out/summary.json").read_text()),
    )
    logged = [entry["loss"] for entry in metrics(tmp_path / "out") if "loss" in entry]
    work = next((tmp_path / "work").iterdir())
    kept = {folder.name for folder in work.glob("checkpoint-*")}
    if changes.get("keep_best"):
        losses = {e["step"]: e["eval_loss"] for e in metrics(tmp_path / "out")[:-1] if "eval_loss" in e}
        assert summary["best_eval_loss"] == min(losses.values()) == pytest.approx(summary["eval_loss"], abs=1e-6)
        assert summary["stopped_early"] and summary["steps"] == 6  # the first evaluation is the only gain of 10 nats
        assert losses[summary["best_step"]] == summary["best_eval_loss"]
        assert f"checkpoint-{summary['best_step']}" in kept, "the best is kept, though it is not the newest"
    else:
        first = load_file(origin / "model.safetensors")
        moved = {name for name in first if not torch.equal(first[name], straight[name])}
        assert moved == {name for name in first if "mlp" in name}
    # stop in the middle: the same line, killed when the first checkpoint is whole
    shutil.rmtree(tmp_path / "work"), shutil.rmtree(tmp_path / "out")
    process = subprocess.Popen(command(origin, shards, tmp_path, **changes), stderr=subprocess.DEVNULL)
    while process.poll() is None and not list((tmp_path / "work").glob("*/checkpoint-*/whole.json")):
        pass
    process.kill()
    process.wait()
    done = run(origin, shards, tmp_path, **changes)
    assert done.returncode == 0, done.stderr
    assert "resumes at step" in done.stderr
    again = load_file(tmp_path / "out/model.safetensors")
    assert all(torch.equal(again[name], straight[name]) for name in straight)
    assert [entry["loss"] for entry in metrics(tmp_path / "out") if "loss" in entry] == logged
    after = json.loads((tmp_path / "out/summary.json").read_text())
    same = ["steps", "best_step", "best_eval_loss", "stopped_early", "eval_loss", "train_loss"]
    assert [after.get(name) for name in same] == [summary.get(name) for name in same]
    # and a run that was all done, but lost its output, makes no further step
    shutil.rmtree(tmp_path / "out")
    assert run(origin, shards, tmp_path, **changes).returncode == 0
    assert all(torch.equal(load_file(tmp_path / "out/model.safetensors")[name], straight[name]) for name in straight)


def test_auto_is_resolved_once_and_said(origin, shards, tmp_path):
    done = run(origin, shards, tmp_path, learning_rate="auto", global_batch="auto", steps=2)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["learning_rate"] == learning_rate(35104)
    assert summary["global_batch"] == 8
    assert summary["tokens"] == 2 * 8 * LENGTH
