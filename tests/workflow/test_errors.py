"""A user's mistake ends the workflow with one line, most before any job starts."""

import re
import subprocess
import sys

import pytest


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
    "tiny.yaml: seed: must be a whole number, not 'x'": put("seed", "x"),
    "tiny.yaml: training.train.sft.from: no 'x' here": put(*STAGES, "sft", "from", "x"),
    "tiny.yaml: training.train.pretrain.from: a cycle": put(*STAGES, "pretrain", "from", "sft"),
    "tiny.tsv: no rows": table(HEADER),
    "none.tsv: no such file": put("sources", "table", "config/none.tsv"),
    "tiny.tsv: not UTF-8": lambda clone: (clone.root / "config/tiny.tsv").write_bytes(b"\xff\x00\xfe"),
    "machines/local.yaml: nodes: must be a whole number, not 'one'": machine("nodes: 1", "nodes: one"),
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


def test_without_a_profile_the_local_machine_is_meant(finished):
    words = ["-m", "snakemake", "-n", "results/eval.json", "--cores", "1", "--configfile", "config/tiny.yaml"]
    done = subprocess.run([sys.executable, *words], cwd=finished.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "config/machines" not in done.stderr
