"""scripts/training/engine/muon.py, planning/resolved_stage.py: schedules, freezing, contradictions, `auto`, and
resuming with them."""

import json
import math
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file
from transformers import get_scheduler

from scripts.common.errors import UserError
from scripts.experiment.load import load_experiment
from scripts.training.planning.resolved_stage import (
    global_batch_size,
    learning_rate,
    resolve_auto,
    resolve_stage,
    training_steps,
)
from scripts.training.train import freeze_others, optimizer_arguments
from tests import forked
from tests.training.conftest import machine, often, stage
from tests.training.test_train import command, metrics, run


@pytest.mark.parametrize(
    ("scheduler", "closed"),
    [
        ("cosine", lambda t: 0.5 * (1 + math.cos(math.pi * (t - 10) / 90))),
        ("linear", lambda t: (100 - t) / 90),
        ("constant", lambda t: 1.0),
        ("warmup-stable-decay", lambda t: 1.0 if t < 80 else 1 - math.sqrt((t - 80) / 20)),
    ],
)
def test_the_schedules_equal_their_closed_forms(scheduler, closed):
    settings = stage(scheduler=scheduler, warmup_steps=10, steps=100)
    made = optimizer_arguments(resolve_stage("tiny", settings, machine(), None, None))
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_scheduler(made["lr_scheduler_type"], optimizer, 10, 100, made.get("lr_scheduler_kwargs"))
    for step in range(100):
        expected = step / 10 if step < 10 else closed(step)
        assert schedule.get_last_lr()[0] == pytest.approx(expected, abs=1e-9), step
        optimizer.step()
        schedule.step()


def test_a_pattern_freezes_all_that_it_does_not_name_and_must_match(model):
    assert freeze_others(model, ["*.1.self_attn.?_proj.weight", "model.norm.*"]) == [
        *(f"model.layers.1.self_attn.{letter}_proj.weight" for letter in "qkvo"),
        "model.norm.weight",
    ]
    assert sum(parameter.requires_grad for parameter in model.parameters()) == 5
    with pytest.raises(
        UserError, match=r"^trainable: '\*\.7\.\*' matches no parameter; an example of a name: 'model\."
    ):
        freeze_others(model, ["*.1.*", "*.7.*"])


def test_auto_follows_the_stated_rules_and_their_bounds():
    assert learning_rate(7_000_000_000) == 5e-5
    assert learning_rate(7_000_000_000 // 16) == pytest.approx(1e-4, rel=1e-2)
    for parameters, tokens in ((5e8, 5e7), (7e9, 5e7), (7e9, 1e9), (7e9, 1e10)):
        rows = global_batch_size(int(parameters), int(tokens), 4096)
        deepseek = 0.2920 * (6 * parameters * tokens) ** 0.3271
        assert rows % 8 == 0
        assert 0.4 < rows * 4096 / deepseek < 2.5
    assert global_batch_size(35_000, 960, 32) == 8
    assert global_batch_size(7 * 10**10, 10**13, 4096) * 4096 == 2**22
    settings = stage(learning_rate="auto", global_batch_size="auto")
    assert resolve_auto(settings, None, 100).global_batch_size == "auto"
    assert resolve_auto(settings, 7_000_000_000, 10**6).learning_rate == 5e-5
    assert training_steps(stage(steps=None, epochs=2, max_samples=9), 30) == 6


CONTRADICTIONS = [
    ({"eval_steps": 1.5}, "eval_steps: must be a whole number of steps, or below 1 a share of all steps"),
    ({"decay_share": 0.1}, "decay_share: only with `scheduler: warmup-stable-decay`"),
    ({"optimizer": "muon", "max_grad_norm": 1.0}, "max_grad_norm: not with `optimizer: muon`"),
    ({"optimizer": "muon", "method": "lora"}, "optimizer: muon trains whole matrices"),
    ({"scheduler": "warmup-stable-decay", "warmup_steps": 0.9}, "scheduler: warm-up and decay together are longer"),
    ({"learning_rate": "fast"}, "learning_rate: must be a number or `auto`, not 'fast'"),
    ({"trainable": "some"}, "trainable: must be one of all, no_rope_layers or a list, not 'some'"),
    (
        {"trainable": []},
        "trainable: must be one of all, no_rope_layers or a list or mapping of at least 1 entry, not []",
    ),
    ({"early_stopping": {}}, "early_stopping.patience: required"),
    ({"optimizer": "sgd"}, "optimizer: must be one of adamw, adamw_8bit, muon, not 'sgd'"),
]


@pytest.mark.parametrize(("changes", "says"), CONTRADICTIONS, ids=[says.split(":")[0] for _, says in CONTRADICTIONS])
def test_contradictions_are_one_line_errors(changes, says):
    config = yaml.safe_load(Path("config/examples/from-scratch.yaml").read_text())
    name, stage = next(iter(config["training"]["train"].items()))
    stage.pop("epochs", None)
    for setting in ("max_grad_norm", "warmup_steps", "learning_rate"):
        stage.pop(setting, None)
    stage |= {"learning_rate": 1e-4, "steps": 100, **changes}
    with pytest.raises(UserError) as caught:
        load_experiment(config)
    assert f"training.train.{name}.{says}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.soak
def test_an_optimizer_is_one_row(origin, shards, tmp_path):
    """In a copy of the scripts: settings, plan, disk check and training take a row for one that transformers makes."""
    shutil.copytree("scripts", tmp_path / "scripts", ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copytree("config", tmp_path / "config")
    table = tmp_path / "scripts/experiment/optimizers.py"
    row = '"rmsprop": Optimizer("One moment.", optim="rmsprop", layer_bytes=4, head_bytes=4, other_bytes=4),'
    start = "OPTIMIZERS = {\n"
    text = table.read_text()
    assert start in text
    table.write_text(text.replace(start, f"{start}    {row}\n"))
    words = command(origin, shards, tmp_path, optimizer="rmsprop", learning_rate=1e-3)
    done = forked.run(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    losses = [entry["loss"] for entry in metrics(tmp_path / "out") if "loss" in entry]
    assert losses[-1] < losses[0] - 0.3
    state = torch.load(next((tmp_path / "work").glob("*/checkpoint-12/optimizer.pt")), weights_only=True)
    tensors = [value for values in state["state"].values() for key, value in values.items() if key != "step"]
    trained = json.loads((tmp_path / "out/summary.json").read_text())["parameters"]
    assert sum(tensor.nbytes for tensor in tensors) == 4 * trained


RESUMED = {
    "muon, best, early stop": {
        "optimizer": "muon",
        "keep_best": True,
        "early_stopping": {"patience": 2, "min_delta": 10.0},
        "learning_rate": 1.0,  # too much: the first evaluation is the best one
    },
    "8 bits, frozen": {
        "optimizer": "adamw_8bit",
        "max_samples": 17,
        "scheduler": "warmup-stable-decay",
        "trainable": ["*mlp*"],
    },
}


@pytest.mark.parametrize("name", often(["muon, best, early stop"], ["8 bits, frozen"]))
def test_a_resumed_run_ends_as_an_uninterrupted_one_bit_for_bit(origin, shards, tmp_path, name):
    changes = {**RESUMED[name], "steps": 12, "eval_steps": 2, "save_steps": 3, "keep_checkpoints": 1}
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
        time.sleep(0.002)
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
