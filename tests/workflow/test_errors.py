"""A user's mistake ends the workflow with one line before any job starts; a failed or killed run loses nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

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


def machine(old: str, new: str):
    return lambda clone: clone.replace("config/machines/local.yaml", old, new)


HEADER = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
STAGES = ("training", "train")
MISTAKES = {
    "tiny.yaml: corpus.filtre: unknown key; did you mean `filter`?": put("corpus", "filtre", {}),
    "tiny.yaml: seed: 'x' is not of type 'integer'": put("seed", "x"),
    "tiny.yaml: training.train.sft.from: no 'x' here": put(*STAGES, "sft", "from", "x"),
    "tiny.yaml: training.train.pretrain.from: a cycle": put(*STAGES, "pretrain", "from", "sft"),
    "tiny.tsv: no rows": table(HEADER),
    "none.tsv: no such file": put("sources", "table", "config/none.tsv"),
    "tiny.tsv: not UTF-8": lambda clone: (clone.root / "config/tiny.tsv").write_bytes(b"\xff\x00\xfe"),
    "machines/local.yaml: nodes: 'one'": machine("nodes: 1", "nodes: one"),
    "training.train.pretrain.global_batch: 8 is no multiple of 3": machine("gpus: 0", "gpus: 3"),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_and_no_job_starts(finished, tmp_path, line):
    clone = finished.copy(tmp_path / "clone")
    MISTAKES[line](clone)
    done = clone.snakemake("results/eval.json", check=False)
    said = [text for text in done.stderr.splitlines() if not text.startswith("Using profile")]
    assert done.returncode == 1
    assert len(said) == 1 and re.match(f"error: (config/)?{re.escape(line)}", said[0]), done.stderr
    assert "rule " not in done.stdout


def test_a_missing_experiment_file_is_named(finished):
    """Snakemake itself reads this file, so the words, and a traceback above them, are its own."""
    done = finished.snakemake("-n", "--configfile", "config/none.yaml", check=False)
    assert done.returncode
    assert "No such file or directory: 'config/none.yaml'" in done.stdout + done.stderr


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
    """`kill -9` in the middle of training: nothing finished is repeated, the stage resumes to the same weights."""
    clone = finished.copy(tmp_path / "clone")

    def model(of: Clone) -> str:
        manifest = json.loads((of.root / "results/training/train/sft/manifest.json").read_text())
        return manifest["files"]["model.safetensors"]["sha256"]

    put("training", "train", "sft", "steps", 16)(clone)
    target = "results/training/train/sft/manifest.json"
    straight = clone.copy(tmp_path / "straight")
    straight.snakemake(target)
    line = [target, "--profile", "local", "--configfile", "config/tiny.yaml"]
    process = subprocess.Popen(
        [sys.executable, "-m", "snakemake", *line], cwd=clone.root, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and not list(clone.root.glob("results/work/train/sft/*/checkpoint-4/whole.json")):
        time.sleep(0.01)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (clone.root / "results/training/train/sft/manifest.json").exists(), "it was over before it was killed"
    clone.snakemake("--unlock")
    done = clone.snakemake(target)
    assert re.search(r"sft: resumes at step (4|6|8|10|12|14|16)", done.stdout + done.stderr)
    assert "rule pack" not in done.stdout + done.stderr
    assert model(clone) == model(straight)
