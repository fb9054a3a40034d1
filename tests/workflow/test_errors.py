"""A user's mistake ends the workflow with one line before any job starts; a failed or killed run loses nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.workflow.conftest import Clone


def put(*keys_and_value):
    *keys, last, value = keys_and_value

    def edit(config):
        for key in keys:
            config = config[key]
        config[last] = value

    return lambda clone: clone.experiment(edit)


def table(text: str):
    return lambda clone: (clone.root / "config/tiny.tsv").write_text(text)


HEADER = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
MISTAKES = {
    "unknown key": (put("corpus", "filtre", {}), "config/tiny.yaml: corpus.filtre: unknown key; did you mean `filter`?"),
    "wrong type": (put("seed", "x"), "config/tiny.yaml: seed: 'x' is not of type 'integer'"),
    "no such stage": (put("training", "train", "sft", "from", "x"), "config/tiny.yaml: training.train.sft.from: no 'x' here"),
    "a cycle": (put("training", "train", "pretrain", "from", "sft"), "config/tiny.yaml: training.train.pretrain.from: a cycle"),
    "no sources": (table(HEADER), "config/tiny.tsv: "),
    "missing table": (put("sources", "table", "config/none.tsv"), "config/none.tsv: no such file"),
    "binary table": (lambda clone: (clone.root / "config/tiny.tsv").write_bytes(b"\xff\x00\xfe"), "config/tiny.tsv: "),
    "bad machine": (lambda clone: clone.replace("config/machines/local.yaml", "nodes: 1", "nodes: one"), "config/machines/local.yaml: nodes: 'one'"),
    "does not divide": (lambda clone: clone.replace("config/machines/local.yaml", "gpus: 0", "gpus: 3"), "training.train.pretrain.global_batch: 8 is no multiple of 3"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_and_no_job_starts(finished, tmp_path, mistake):
    clone = finished.copy(tmp_path / "clone")
    edit, line = MISTAKES[mistake]
    edit(clone)
    done = clone.snakemake("results/eval.json", check=False)
    said = [text for text in done.stderr.splitlines() if not text.startswith("Using profile")]
    assert done.returncode == 1
    assert len(said) == 1 and said[0].startswith(f"error: {line}"), done.stderr
    assert "rule " not in done.stdout


def test_a_missing_experiment_file_is_named(finished):
    done = finished.snakemake("-n", "--configfile", "config/none.yaml", check=False)
    assert done.returncode and "config/none.yaml" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pin_that_does_not_match_shows_both_values_and_leaves_no_archive(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    path = clone.root / "config/tiny.tsv"
    found = re.search(r"beta\tpath\t\S+\t(\w{64})", path.read_text()).group(1)
    path.write_text(path.read_text().replace(found, "0" * 64))
    done = clone.snakemake("results/eval.json", check=False)
    assert done.returncode
    assert any(found in line and "0" * 64 in line for line in done.stdout.splitlines() + done.stderr.splitlines())
    assert not (clone.root / "data/raw/beta.tar.zst").exists()


def test_a_run_killed_with_all_its_children_goes_on_where_it_was(finished, tmp_path):
    """`kill -9` in the middle of training: finished jobs are not repeated, the stage resumes, the weights are the same."""
    clone = finished.copy(tmp_path / "clone")

    def model(of: Clone) -> str:
        manifest = json.loads((of.root / "results/training/train/sft/manifest.json").read_text())
        return manifest["files"]["model.safetensors"]["sha256"]

    slower = put("training", "train", "sft", "steps", 12)
    slower(clone)
    straight = clone.copy(tmp_path / "straight")
    straight.snakemake("results/eval.json")
    line = ["results/eval.json", "--profile", "local", "--configfile", "config/tiny.yaml"]
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", *line], cwd=clone.root, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and not list(clone.root.glob("results/work/train/sft/*/checkpoint-4/whole.json")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (clone.root / "results/training/train/sft/manifest.json").exists()
    clone.snakemake("--unlock")
    done = clone.snakemake("results/eval.json")
    assert re.search(r"sft: resumes at step (4|6|8|10|12)", done.stdout + done.stderr)
    assert "rule filter" not in done.stdout + done.stderr
    assert model(clone) == model(straight)
