"""A user's mistake ends the workflow with one line, most before any job starts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from tests import forked
from tests.hosts.test_hardware import CUDA_13, OLD, on_host


def set_key(*keys_and_value):
    *keys, last, value = keys_and_value

    def edit(config):
        for key in keys:
            config = config[key]
        config[last] = value

    return lambda clone: clone.experiment(edit)


def table(text: str):
    return lambda clone: (clone.root / "config/tiny.tsv").write_text(text)


def machine(old: str, new: str):
    return lambda clone: clone.replace("config/machines/local.yaml", old, new)


def chats(*turns):
    """A dataset of one chat of these turns."""

    def edit(clone):
        messages = [{"role": role, "content": content} for role, content in turns]
        (clone.root / "chats.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
        set_key("corpus", "compose", "mine", {"kind": "chat", "path": "chats.jsonl"})(clone)

    return edit


def base_without_fim(clone):
    """A base whose tokenizer has no control token but its end."""
    folder = clone.root / "model"
    folder.mkdir()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_special_tokens(["<|endoftext|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text("{}")
    set_key("training", "base", {"model": "model"})(clone)


HEADER = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
STAGES = ("training", "train")
MISTAKES = {
    "results: results holds the results of experiment tiny, this one is other; give it a root of its own, as"
    " `results: results/other`, or remove results/work/experiment if only the name changed": set_key(
        "experiment", "other"
    ),
    "tiny.yaml: corpus.filtre: unknown key; did you mean `filter`?": set_key("corpus", "filtre", {}),
    "tiny.yaml: seed: must be a whole number, not 'x'": set_key("seed", "x"),
    "tiny.yaml: training.train.sft.from: no 'x' here": set_key(*STAGES, "sft", "from", "x"),
    "tiny.yaml: training.train.pretrain.from: a cycle": set_key(*STAGES, "pretrain", "from", "sft"),
    "tiny.tsv: no rows": table(HEADER),
    "none.tsv: no such file": set_key("sources", "config/none.tsv"),
    "tiny.tsv: not UTF-8": lambda clone: (clone.root / "config/tiny.tsv").write_bytes(b"\xff\x00\xfe"),
    "machines/local.yaml: nodes: must be a whole number, not 'one'": machine("nodes: 1", "nodes: one"),
    "chats.jsonl: 1: message 2: role tool: tool calls are not trained on": chats(("user", "Add."), ("tool", "4")),
    "chats.jsonl: 1: message 1: content part 1 must be of type text, not 'image'": chats(
        ("user", [{"type": "image", "url": "x.png"}])
    ),
    "corpus.compose.code.fim_rate: the base's tokenizer (model) has no <|fim_prefix|>; set `fim_rate: 0`": (
        base_without_fim
    ),
    "training.train.pretrain.global_batch_size: 8 is no multiple of 3": machine("gpus: 0", "gpus: 3"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_a_one_line_error_and_no_job_starts(finished, tmp_path, line):
    clone = finished.copy(tmp_path / "clone")
    MISTAKES[line](clone)
    done = clone.snakemake("results/eval.json", check=False)
    error_lines = [text for text in done.stderr.splitlines() if not text.startswith("Using profile")]
    assert done.returncode == 1
    assert len(error_lines) == 1 and re.match(f"error: (config/)?{re.escape(line)}", error_lines[0]), done.stderr
    assert "rule " not in done.stdout


def test_a_gpu_driver_that_is_too_old_ends_the_workflow_before_its_first_job(finished, tmp_path, monkeypatch):
    clone = finished.copy(tmp_path / "clone")
    machine("gpus: 0", "gpus: 1")(clone)
    host = on_host(tmp_path, CUDA_13, OLD)
    for name in ("PYTHONPATH", "FAKE_NVML", "FAKE_DRIVER"):
        monkeypatch.setenv(name, host[name])
    clone.snakemake("results/eval.json")  # there is nothing to do that needs a GPU
    clone.experiment(lambda config: config["training"]["train"]["sft"].update(learning_rate=1e-4))
    done = clone.snakemake("results/eval.json", check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "error: torch 2.13.0+cu130 is built for CUDA 13.0 and needs GPU driver"
    )
    assert "rule " not in done.stdout + done.stderr
    done = clone.snakemake("-n", "results/eval.json", "--printshellcmds")  # possible on any host
    planned = done.stdout + done.stderr
    # on Slurm the job checks its own host
    assert "scripts.training.train --stage sft" in planned and "scripts.hosts.gpus --torch " in planned


def test_a_missing_experiment_file_is_named(finished):
    """Snakemake reads this file before any rule, so the words, and a traceback above them, are its own."""
    done = finished.snakemake("-n", "--configfile", "config/none.yaml", check=False)
    assert done.returncode
    assert "No such file or directory: 'config/none.yaml'" in done.stdout + done.stderr


def test_a_pin_that_does_not_match_shows_both_values_and_leaves_no_archive(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    path = clone.root / "config/tiny.tsv"
    pin = re.search(r"beta\tpath\t[^\t]+\t(\w{64})", path.read_text()).group(1)
    path.write_text(path.read_text().replace(pin, "0" * 64))
    done = clone.snakemake("results/eval.json", check=False)
    assert done.returncode
    assert any(pin in line and "0" * 64 in line for line in done.stdout.splitlines() + done.stderr.splitlines())
    assert not list((clone.root / "data/raw").glob(f"beta-{'0' * 12}*"))


def test_without_a_profile_the_local_machine_is_used(finished):
    words = ["-m", "snakemake", "-n", "results/eval.json", "--cores", "1", "--configfile", "config/tiny.yaml"]
    done = subprocess.run([forked.python(), *words], cwd=finished.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "config/machines" not in done.stderr


def test_a_mistyped_target_is_a_one_line_error_with_the_closest_one(finished):
    done = finished.snakemake("-n", "results/evl.json", check=False)
    error_lines = [text for text in done.stderr.splitlines() if not text.startswith("Using profile")]
    assert done.returncode == 1
    assert error_lines == [
        "error: results/evl.json: no rule has this name or makes this file with this experiment; did you mean"
        " results/eval.json?"
    ]


def test_a_profile_and_a_machine_file_that_contradict_each_other_are_refused_in_a_dry_run_too(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    clone.replace("config/machines/a40.yaml", "nodes: 4", "nodes: 2")
    done = clone.snakemake("-n", "--profile", "a40", check=False)
    error_lines = [text for text in done.stderr.splitlines() if not text.startswith("Using profile")]
    assert done.returncode == 1
    assert error_lines == [
        "error: the profile's set-resources.training_job.nodes is 4, but config/machines/a40.yaml says `nodes: 2`"
    ]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["smoke", "EXPERIMENT=wrong"], "error: EXPERIMENT=wrong: no file config/smoke/wrong.yaml; known: cpt-muon "),
        (["eval", "PROFILE=wrong"], "error: PROFILE=wrong: no file wrong/config.yaml; known: a40 "),
    ],
)
def test_a_wrong_value_for_make_is_a_one_line_error(finished, words, line):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    make = ["make", "--no-print-directory", "--old-file", "env", *words]
    done = subprocess.run(make, cwd=finished.root, env=environment, capture_output=True, text=True, check=False)
    error_lines = [text for text in done.stderr.splitlines() if not text.startswith("make: ***")]
    assert done.returncode and len(error_lines) == 1 and error_lines[0].startswith(line), done.stderr
