"""scripts/training/train.py: the loss is the textbook's, a killed run ends as a straight one, errors are one line."""

import json
import math
import platform
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from scripts.common.files import sha256_file
from scripts.common.manifest import write_manifest
from scripts.training.engine.checkpoint_folders import is_complete, newest_complete, remove_checkpoints_except
from scripts.training.engine.stage_process import stage_parser
from scripts.training.model.loading import load_model
from scripts.training.model.snapshots import snapshots, snapshots_in
from scripts.training.monitoring.measurements import truncate_after
from scripts.training.planning.plan_stage import plan_as_json
from tests import forked
from tests.training.conftest import LENGTH, MACHINE, MONITORING, SEED, STAGE, write_split


def command(origin: Path, shards: Path, tmp_path: Path, machine: dict = MACHINE, **changes) -> list[str]:
    """The command of the tiny stage; `changes` are of its settings or of its monitoring file."""
    machine_path, monitoring_path = tmp_path / "machine.yaml", tmp_path / "intervals.yaml"
    machine_path.write_text(json.dumps(machine))
    monitoring = {key: changes.pop(key, value) for key, value in MONITORING.items()}
    monitoring_path.write_text(json.dumps(monitoring))
    words = [
        sys.executable,
        "-m",
        "scripts.training.launch",
        "--machine",
        machine_path,
        "--threads",
        "1",
        "scripts.training.train",
    ]
    words += ["--stage", "tiny", "--settings", json.dumps({**STAGE, **changes}), "--seed", SEED, "--code", "0"]
    words += [
        "--monitoring",
        monitoring_path,
        "--origin",
        origin,
        "--shards",
        shards,
        "--work",
        tmp_path / "work",
        "--out",
        tmp_path / "out",
    ]
    return [str(word) for word in words]


def on_ranks(words: list[str], count: int) -> list[str]:
    """The command with torchrun started by hand, instead of by scripts/training/launch.py."""
    module = words.index("scripts.training.train")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)] if count > 1 else []
    options = words[words.index("--machine") : module]
    return [sys.executable, *torchrun, "-m", words[module], *options, *words[module + 1 :]]


def ranks_of(work: Path) -> list[psutil.Process]:
    """The ranks that torchrun has started on a work folder, in their order."""
    ranks = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(work) in process.cmdline() and "RANK" in (environment := process.environ()):
                ranks[environment["RANK"]] = process
    return [ranks[rank] for rank in sorted(ranks)]


def run_on_ranks(words: list[str], count: int, env: dict | None = None) -> subprocess.CompletedProcess:
    """The command on ranks that torchrun did not start, with the variables that it sets."""
    return forked.run_ranks(on_ranks(words, 1), count, env) if count > 1 else forked.run(on_ranks(words, 1), env)


def run(*arguments, **changes) -> subprocess.CompletedProcess:
    return forked.run(command(*arguments, **changes))


def metrics(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def straight(origin, shards, tmp_path_factory) -> Path:
    """The folder of a run that nobody disturbed."""
    folder = tmp_path_factory.mktemp("straight")
    done = subprocess.run(command(origin, shards, folder), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder / "log").write_text(done.stderr)
    return folder


def test_the_stage_folder_is_a_model_that_transformers_loads_with_all_its_records(straight, origin):
    out = straight / "out"
    manifest = json.loads((out / "manifest.json").read_text())
    assert {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"} <= set(manifest["files"])
    assert manifest["files"]["tokenizer.json"]["sha256"] == sha256_file(origin / "tokenizer.json")
    AutoModelForCausalLM.from_pretrained(out), AutoTokenizer.from_pretrained(out)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["steps"] == 12
    assert summary["tokens"] == 12 * 4 * LENGTH
    environment = json.loads((out / "environment.json").read_text())
    assert environment["versions"]["torch"].startswith("2.")
    assert environment["host"] == platform.node()
    assert environment["cpu"] in Path("/proc/cpuinfo").read_text()
    assert "gpu_driver" in environment
    assert "scripts.training.train" in (out / "command.txt").read_text()
    assert any((out / "tensorboard").glob("events*"))
    assert not list(out.glob("*.bin"))
    (straight / "new").touch()  # has the mode that the umask gives
    assert {path.stat().st_mode for path in out.rglob("*") if path.is_file()} == {(straight / "new").stat().st_mode}


def test_the_stage_runs_with_the_numbers_of_its_plan(straight):
    summary = json.loads((straight / "out/summary.json").read_text())
    numbers = (
        "learning_rate",
        "global_batch_size",
        "steps",
        "tokens",
        "tokens_per_step",
        "warmup",
        "log",
        "eval",
        "save",
    )
    layout = ("processes", "micro_batch_size", "gradient_accumulation", "sharding", "offload")
    assert {name: summary[name] for name in numbers + layout} == {
        name: summary["plan"][name] for name in numbers + layout
    }
    assert (summary["warmup"], summary["log"], summary["eval"], summary["save"]) == (2, 1, 6, 4)


def test_the_validation_loss_is_that_of_documents_scored_one_by_one(straight, origin, shards):
    """An independent path: each document alone, without packing, labels shifted by hand, in float64."""
    model = AutoModelForCausalLM.from_pretrained(straight / "out", dtype=torch.float64, attn_implementation="eager")
    tokens = np.fromfile(shards / "validation.tokens.bin", np.uint32).reshape(-1, LENGTH).astype(np.int64)
    flags = np.fromfile(shards / "validation.flags.bin", np.uint8).reshape(-1, LENGTH)
    nats = count = 0
    for row, offset, length, _ in np.load(shards / "validation.pieces.npy"):
        if row < STAGE["eval_rows"]:
            ids = torch.from_numpy(tokens[row, offset : offset + length])
            with torch.no_grad():
                scores = model(ids[None]).logits[0].log_softmax(-1)
            for index in range(1, length):
                if flags[row, offset + index] & 2:
                    nats -= scores[index - 1, ids[index]].item()
                    count += 1
    logged = json.loads((straight / "out/summary.json").read_text())["eval_loss"]
    assert logged == pytest.approx(nats / count, rel=1e-5)


def test_the_loss_falls_and_every_step_is_logged_on_a_cosine_schedule(straight):
    steps = [entry for entry in metrics(straight / "out") if "loss" in entry]
    assert [entry["step"] for entry in steps] == list(range(1, 13))
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.3
    for number, entry in enumerate(
        steps
    ):  # the rate logged is the one the step used: warm-up from its first share, half a cosine
        expected = (number + 1) / 2 if number < 2 else 0.5 * (1 + math.cos(math.pi * (number - 2) / 10))
        assert entry["learning_rate"] == pytest.approx(1e-2 * expected, abs=1e-9)
        assert entry["grad_norm"] > 0
    assert [entry["step"] for entry in metrics(straight / "out") if "eval_loss" in entry] == [6, 12]


@pytest.mark.parametrize("method", ["full", "lora"])
def test_the_curves_weights_are_those_of_a_run_that_was_stopped_there(origin, shards, tmp_path, method):
    """A checkpoint of the same run after as many steps holds them; a resumed run keeps those that it has."""
    changes = {"curve": [0.25, 0.5], "save_steps": 3, "keep_checkpoints": 4, "method": method}
    done = run(origin, shards, tmp_path, **changes)
    assert done.returncode == 0, done.stderr
    found = dict(snapshots_in(list(json.loads((tmp_path / "out/manifest.json").read_text())["files"])))
    assert list(found) == [3, 6]
    [work] = (tmp_path / "work").glob("*/")
    for steps, folder in snapshots(tmp_path / "out"):
        names = [name for name in found[steps] if name.endswith(".safetensors")]
        expected = load_file(work / f"checkpoint-{steps}" / names[0])
        kept = load_file(folder / names[0])
        assert kept.keys() == expected.keys() and all(torch.equal(kept[name], expected[name]) for name in kept)
        changed = load_file(tmp_path / "out" / names[0])
        assert any(not torch.equal(kept[name], changed[name]) for name in kept)
        model = load_model(folder, torch.float32)  # as suite perplexity loads it
        assert sum(parameter.numel() for parameter in model.parameters()) > 0


def test_a_last_step_that_is_an_evaluation_is_evaluated_and_logged_once(straight):
    log = (straight / "log").read_text()
    assert re.findall(r"tiny: step (\d+), validation loss", log) == ["6", "12"]


def test_without_validation_rows_there_is_no_validation_loss_and_nothing_is_chosen_by_one(origin, shards, tmp_path):
    """It was 0 once, which is below every gate's bound."""
    shutil.copytree(shards, tmp_path / "shards")
    manifest = json.loads((shards / "manifest.json").read_text())
    manifest["splits"]["validation"] = write_split(tmp_path / "shards", "validation", 0, np.random.default_rng(0))
    facts = {name: value for name, value in manifest.items() if name != "files"}
    write_manifest(tmp_path / "shards", manifest["files"], **facts)
    refused = run(origin, tmp_path / "shards", tmp_path, keep_best=True)
    assert refused.returncode == 1 and refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("error: training.train.tiny.keep_best: ")
    done = run(origin, tmp_path / "shards", tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out/summary.json").read_text())["eval_loss"] is None
    assert not [entry for entry in metrics(tmp_path / "out") if "eval_loss" in entry]


def test_micro_batch_and_accumulation_change_nothing_but_rounding(straight, origin, shards, tmp_path):
    """Rows hold unequal numbers of targets, so a mean of means would differ."""
    assert run(origin, shards, tmp_path, {**MACHINE, "micro_batch_size": 4}).returncode == 0
    expected = [entry["loss"] for entry in metrics(straight / "out") if "loss" in entry]
    losses = [entry["loss"] for entry in metrics(tmp_path / "out") if "loss" in entry]
    assert losses == pytest.approx(expected, abs=1e-5)


def test_a_half_written_checkpoint_is_never_resumed(straight, tmp_path):
    work = next((straight / "work").iterdir())
    shutil.copytree(work, tmp_path / "w")
    assert sorted(folder.name for folder in (tmp_path / "w").glob("checkpoint-*")) == ["checkpoint-12", "checkpoint-8"]
    newest = tmp_path / "w/checkpoint-12"
    assert newest_complete(tmp_path / "w") == newest
    data = (newest / "optimizer.pt").read_bytes()
    (newest / "optimizer.pt").write_bytes(data[:-1])
    assert newest_complete(tmp_path / "w").name == "checkpoint-8"
    (newest / "optimizer.pt").unlink()
    assert not is_complete(newest)
    remove_checkpoints_except(tmp_path / "w", {tmp_path / "w/checkpoint-8"})
    assert [folder.name for folder in (tmp_path / "w").glob("checkpoint-*")] == ["checkpoint-8"]
    (tmp_path / "w/checkpoint-8/whole.json").unlink()
    assert newest_complete(tmp_path / "w") is None


def work_of(done: subprocess.CompletedProcess) -> str:
    """The name of the work folder in a run's log."""
    return re.search(r"work in \S+/(\w+)\n", done.stderr).group(1)


def test_a_changed_setting_never_resumes_from_a_stale_checkpoint(straight, origin, shards, tmp_path):
    shutil.copytree(straight / "work", tmp_path / "work")
    done = run(origin, shards, tmp_path, learning_rate=5e-3)
    assert done.returncode == 0, done.stderr
    assert "tiny: starts" in done.stderr
    assert len(list((tmp_path / "work").iterdir())) == 2
    assert re.search(r"removed 2 checkpoints of an earlier run, freed [\d.]+ KiB\n", done.stderr)
    assert {folder.parent.name for folder in (tmp_path / "work").glob("*/checkpoint-*")} == {work_of(done)}


def test_how_often_a_stage_logs_and_saves_changes_neither_its_weights_nor_its_work_folder(origin, shards, tmp_path):
    """Dropout draws from the random streams that a save would disturb."""
    drawn = {"method": "lora", "lora": {**STAGE["lora"], "dropout": 0.4, "merge": True}, "eval_steps": 5}
    for name in ("rare", "often"):
        (tmp_path / name).mkdir()
    rare = run(origin, shards, tmp_path / "rare", **drawn, log_steps=100, save_steps=100, keep_checkpoints=1)
    often = run(origin, shards, tmp_path / "often", **drawn, log_steps=1, save_steps=1, keep_checkpoints=9)
    assert Path(work_of(rare)).name == Path(work_of(often)).name, rare.stderr + often.stderr
    assert len(metrics(tmp_path / "often/out")) > len(metrics(tmp_path / "rare/out"))
    assert len(list((tmp_path / "often").glob("work/*/checkpoint-*"))) == 9
    name = "out/model.safetensors"
    assert sha256_file(tmp_path / "rare" / name) == sha256_file(tmp_path / "often" / name)


def test_the_metric_log_loses_what_a_killed_run_wrote_beyond_its_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1,"loss":2}\n{"step":2,"loss":1}\n{"step":3,"lo')
    truncate_after(path, 1)
    assert path.read_bytes() == b'{"step":1,"loss":2}\n'
    truncate_after(tmp_path / "none.jsonl", 1)
    damaged = b'\xff\x00\n[]\nnull\n{"step": "x"}\n{"a": 1}\n'
    path.write_bytes(b'{"step": 1}\n' + damaged + b'{"step": 2}\n{"step": 3}\n{"st')
    truncate_after(path, 2)
    assert path.read_bytes() == b'{"step": 1}\n{"step": 2}\n'


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda shards: (shards / "train.tokens.bin").write_bytes(b""), "train.tokens.bin: 0 bytes, its manifest says"),
        (lambda shards: (shards / "manifest.json").unlink(), "manifest.json: no such file"),
    ],
)
def test_broken_shards_are_one_line_errors_and_leave_no_output(origin, shards, tmp_path, damage, says):
    shutil.copytree(shards, tmp_path / "shards")
    damage(tmp_path / "shards")
    done = run(origin, tmp_path / "shards", tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and says in done.stderr and done.stderr.startswith("error: ")
    assert not (tmp_path / "out").exists()


def test_shards_of_another_vocabulary_are_refused(origin, shards, tmp_path):
    shutil.copytree(shards, tmp_path / "shards")
    manifest = json.loads((shards / "manifest.json").read_text())
    manifest["splits"]["train"]["largest_id"] = 599
    (tmp_path / "shards/manifest.json").write_text(json.dumps(manifest))
    done = run(origin, tmp_path / "shards", tmp_path)
    assert done.returncode == 1
    assert "packed with a vocabulary of 600" in done.stderr.splitlines()[-1]


def test_the_plan_that_a_stage_starts_with_has_the_intervals_of_its_monitoring_file(origin, shards, tmp_path):
    words = command(origin, shards, tmp_path, steps=20, save_steps=4, log_steps=0.5)
    arguments = stage_parser().parse_args(words[words.index("--stage") :])
    planned = json.loads(plan_as_json(tmp_path / "machine.yaml", arguments))
    assert (planned["steps"], planned["save"], planned["log"]) == (20, 4, 10)


def test_the_plan_of_a_stage_without_packing_takes_each_piece_for_a_row_as_the_stage_does(origin, shards, tmp_path):
    pieces = json.loads((shards / "manifest.json").read_text())["splits"]["train"]["pieces"]
    # a warm-up that fits the steps over the pieces, but not those over the packed rows
    warmup = pieces // STAGE["global_batch_size"] - 1
    words = command(origin, shards, tmp_path, packing=False, steps=None, epochs=1, warmup_steps=warmup)
    arguments = stage_parser().parse_args(words[words.index("--stage") :])
    planned = json.loads(plan_as_json(tmp_path / "machine.yaml", arguments))
    assert planned["steps"] == math.ceil(pieces / STAGE["global_batch_size"])
