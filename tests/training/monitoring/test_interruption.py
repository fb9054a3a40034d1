"""scripts/training/engine/callbacks.py: SIGTERM leaves a whole checkpoint that resumes; a NaN ends a stage and
names documents."""

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import TrainerControl, TrainerState

from scripts.common.errors import UserError
from scripts.common.files import read_json
from scripts.common.manifest import read_manifest, write_manifest
from scripts.experiment.machine_files import load_monitoring
from scripts.tokens.packing.shards import Shards
from scripts.training.base import base
from scripts.training.engine.callbacks import Interruption, ProgressFile
from scripts.training.engine.checkpoint_folders import newest_complete, step_of
from scripts.training.engine.trainer import PassRecordingTrainer
from scripts.training.monitoring.alerts import Alerts
from tests import forked
from tests.training.conftest import LENGTH, MACHINE, often, scratch
from tests.training.test_train import command, metrics, on_ranks, ranks_of, run, run_on_ranks

pytestmark = pytest.mark.fault("a stage, by a signal or a loss", "training")

LONG = {"steps": 60, "save_steps": 1000, "eval_steps": 7}


@pytest.fixture(scope="module")
def straight(origin, shards, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("straight")
    done = run(origin, shards, folder, **LONG)
    assert done.returncode == 0, done.stderr
    return folder


def signalled(words: list[str], work: Path, step: int, target=None) -> subprocess.CompletedProcess:
    """Run until `step` is logged, send SIGTERM to what was started, or to the process from `target()`, and wait."""
    process = subprocess.Popen([forked.python(), *words[1:]], stderr=subprocess.PIPE, text=True, start_new_session=True)
    while process.poll() is None:
        logs = [line for path in work.glob("*/metrics.jsonl") for line in path.read_text().splitlines(keepends=True)]
        if any(line.endswith("\n") and json.loads(line)["step"] >= step for line in logs):
            (target() if target else process).send_signal(signal.SIGTERM)
            break
        time.sleep(0.002)
    _, errors = process.communicate(timeout=120)
    return subprocess.CompletedProcess(words, process.returncode, stderr=errors)


def test_sigterm_saves_a_whole_checkpoint_and_the_resumed_run_ends_as_an_uninterrupted_one(
    straight, origin, shards, tmp_path
):
    words = command(origin, shards, tmp_path, **LONG)
    for stop in (5, 30):
        done = signalled(words, tmp_path / "work", stop)
        [work] = (tmp_path / "work").iterdir()
        step = step_of(newest_complete(work))
        assert step >= stop
        assert done.returncode == 1
        assert done.stderr.splitlines()[-1] == (
            f"fault: tiny: stopped by SIGTERM at step {step} of 60, checkpoint saved; the same command resumes there"
        )
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "out").exists()
        progress = json.loads((work / "progress.json").read_text())
        assert (progress["state"], progress["step"], progress["tokens_left"]) == (
            "stopped",
            step,
            (60 - step) * 4 * LENGTH,
        )
    done = run(origin, shards, tmp_path, **LONG)
    assert done.returncode == 0, done.stderr
    assert f"tiny: resumes at step {step}," in done.stderr
    ours, theirs = load_file(tmp_path / "out/model.safetensors"), load_file(straight / "out/model.safetensors")
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    for key in ("loss", "eval_loss"):
        assert [entry[key] for entry in metrics(tmp_path / "out") if key in entry] == [
            entry[key] for entry in metrics(straight / "out") if key in entry
        ]


@pytest.mark.parametrize("sharding", often(["zero2"], ["none", "zero3", "fsdp2"]))
def test_sigterm_to_one_of_two_ranks_stops_both_at_the_same_step(straight, origin, shards, tmp_path, sharding):
    words = command(origin, shards, tmp_path, {**MACHINE, "micro_batch_size": 1, "sharding": sharding}, **LONG)
    done = signalled(on_ranks(words, 2), tmp_path / "work", 5, lambda: ranks_of(tmp_path / "work")[1])
    [work] = (tmp_path / "work").iterdir()
    step = step_of(newest_complete(work))
    assert step >= 5
    assert done.returncode == 1
    assert done.stderr.count("stopped by SIGTERM at step") == 1, done.stderr
    assert f"stopped by SIGTERM at step {step} of 60" in done.stderr
    assert not (tmp_path / "out").exists()
    done = run_on_ranks(words, 2)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"tiny: resumes at step {step}," in done.stderr
    expected = [entry["loss"] for entry in metrics(straight / "out") if "loss" in entry]
    assert [entry["loss"] for entry in metrics(tmp_path / "out") if "loss" in entry] == pytest.approx(
        expected, abs=1e-3
    )


@pytest.mark.soak
def test_sigterm_to_torchrun_itself_leaves_its_ranks_the_time_to_save(origin, shards, tmp_path):
    words = on_ranks(command(origin, shards, tmp_path, {**MACHINE, "micro_batch_size": 1}, **LONG), 2)
    done = signalled(words, tmp_path / "work", 5)
    assert done.returncode != 0
    [work] = (tmp_path / "work").iterdir()
    assert step_of(newest_complete(work)) >= 5
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def poisoned(tokenizer, tmp_path_factory) -> Path:
    """A model that gives NaN wherever token 500 stands, and nowhere else: its embedding is not tied to the head."""
    folder = tmp_path_factory.mktemp("poisoned")
    base(scratch(shape={"tie_word_embeddings": False}), 1, tokenizer, folder)
    weights = load_file(folder / "model.safetensors")
    weights["model.embed_tokens.weight"][500] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    write_manifest(folder, sorted(read_json(folder / "manifest.json")["files"]))
    return folder


@pytest.fixture(scope="module")
def one_row(shards, tmp_path_factory) -> tuple[Path, list[str]]:
    """Shards in which token 500 stands in one training row only, and the ids of that row's documents."""
    folder = tmp_path_factory.mktemp("one-row") / "shards"
    shutil.copytree(shards, folder)
    for split in ("train", "validation"):
        tokens = np.fromfile(folder / f"{split}.tokens.bin", np.uint32).reshape(-1, LENGTH)
        tokens[tokens == 500] = 499
        if split == "train":
            tokens[17, 9] = 500
        tokens.tofile(folder / f"{split}.tokens.bin")
    manifest = read_manifest(shards)
    facts = {name: manifest[name] for name in ("length", "vocab_size", "splits")}
    write_manifest(folder, sorted(manifest["files"]), **facts)
    ids = (folder / "train.documents.txt").read_text().split("\n")
    return folder, [ids[document] for row, _, _, document in np.load(folder / "train.pieces.npy") if row == 17]


@pytest.mark.parametrize(("ranks", "sharding"), often([(1, "none"), (2, "zero3")], [(2, "none"), (2, "fsdp2")]))
def test_a_loss_that_is_not_finite_names_step_and_documents_and_leaves_no_output(
    poisoned, one_row, tmp_path, ranks, sharding
):
    folder, documents = one_row
    machine = {**MACHINE, "micro_batch_size": 1, "sharding": sharding}
    words = command(poisoned, folder, tmp_path, machine, save_steps=1, keep_checkpoints=99)
    done = run_on_ranks(words, ranks)
    assert done.returncode == 1
    [work] = (tmp_path / "work").iterdir()
    [alert] = [json.loads(line) for line in (work / "alerts.jsonl").read_text().splitlines()]
    step = alert["step"]
    says = f"the loss is not finite; documents of the batch: {', '.join(documents)}"
    assert [line for line in done.stderr.splitlines() if line.startswith("error: ")] == [
        f"error: tiny: step {step}: {says}"
    ]
    assert alert["kind"] == "not_finite" and alert["documents"] == documents
    assert (
        step_of(newest_complete(work)) if step > 1 else 0
    ) == step - 1  # the checkpoints of good steps, and no other
    assert not (tmp_path / "out").exists()
    progress = json.loads((work / "progress.json").read_text())
    assert progress["state"] == "stopped" and says in progress["last_alert"]
    if ranks == 1:
        assert "Traceback" not in done.stderr


@pytest.fixture
def stop(shards, tmp_path):
    """The callback on a trainer in the middle of a step, and what the Trainer would call it with."""
    rows = Shards(shards, "train")
    trainer = PassRecordingTrainer.__new__(PassRecordingTrainer)
    trainer.passes = [(torch.from_numpy(rows.tokens[[3]].astype(np.int64)), torch.tensor(2.0))]
    trainer.train_dataset = SimpleNamespace(packing=True)
    trainer.grad_norm = torch.tensor(1.0)
    alerts = Alerts(tmp_path / "alerts.jsonl", "tiny", load_monitoring(Path("config/monitoring/default.yaml")))
    progress = ProgressFile(tmp_path / "progress.json", "tiny", 1, alerts)
    args = SimpleNamespace(device=torch.device("cpu"), world_size=1, process_index=0)
    state = TrainerState(global_step=11, max_steps=12, is_world_process_zero=True)
    progress.on_train_begin(args, state, None)
    return Interruption(trainer, "tiny", rows, alerts, progress, None), args, state


def test_sigterm_in_the_last_step_is_ignored_and_in_the_one_before_it_is_not(stop):
    interruption, args, state = stop
    interruption.note_signal(signal.SIGTERM, None)
    assert interruption.on_step_end(args, state, TrainerControl(should_log=True)).should_training_stop
    state.global_step = 12
    assert not interruption.on_step_end(args, state, TrainerControl()).should_training_stop


def test_only_the_rows_of_the_newest_step_are_suspects(stop):
    interruption, args, state = stop
    interruption.on_step_begin(args, state, TrainerControl())
    interruption.trainer.passes.append(
        (torch.from_numpy(interruption.shards.tokens[[8]].astype(np.int64)), torch.tensor(2.0))
    )
    interruption.trainer.grad_norm = torch.tensor(float("inf"))
    with pytest.raises(UserError, match="the gradient norm is not finite") as caught:
        interruption.on_step_end(args, state, TrainerControl(should_log=True))
    assert str(caught.value).endswith(f"documents of the batch: {', '.join(interruption.shards.documents(8))}")


@pytest.mark.parametrize("logged", [False, True])
def test_a_step_that_nothing_is_written_of_is_judged_after_the_next_one_and_by_its_own_documents(stop, logged):
    """So the host does not wait for the GPU; a checkpoint is never made of a step that was not judged."""
    interruption, args, state = stop
    state.max_steps = 99
    interruption.trainer.grad_norm = torch.tensor(float("inf"))
    assert not interruption.on_step_end(args, state, TrainerControl()).should_training_stop
    interruption.on_step_begin(args, state, TrainerControl())
    tokens = torch.from_numpy(interruption.shards.tokens[[8]].astype(np.int64))
    interruption.trainer.passes.append((tokens, torch.tensor(2.0)))
    interruption.trainer.grad_norm = torch.tensor(1.0)
    state.global_step += 1
    with pytest.raises(UserError, match="step 11: the gradient norm is not finite") as caught:
        interruption.on_step_end(args, state, TrainerControl(should_save=logged))
    assert str(caught.value).endswith(f"documents of the batch: {', '.join(interruption.shards.documents(3))}")


def test_a_signal_in_a_step_that_nothing_is_written_of_stops_after_the_next_one(stop):
    interruption, args, state = stop
    state.max_steps = 99
    interruption.note_signal(signal.SIGTERM, None)
    assert not interruption.on_step_end(args, state, TrainerControl()).should_training_stop
    state.global_step += 1
    control = interruption.on_step_end(args, state, TrainerControl())
    assert control.should_training_stop and control.should_save and interruption.stopped_at == 12
    assert not interruption.unread
