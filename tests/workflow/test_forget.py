"""`stagecraft forget` in the real workflow: its dry run, and that models made afterwards never saw the source."""

import subprocess

import pytest

from scripts.common.files import sha256_file
from scripts.common.manifest import NAME
from tests import forked
from tests.workflow.conftest import Clone, row, source


def forget(clone: Clone, *words: str) -> str:
    line = [forked.python(), "-m", "scripts.cli", "forget", *words, "--experiment", "tiny"]
    done = subprocess.run(line, cwd=clone.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_without_apply_it_lists_what_contains_a_source_and_what_must_run_again_and_changes_nothing(finished):
    table = (finished.root / "config/tiny.tsv").read_text()
    output = forget(finished, "beta")
    assert "dataset code: " in output and "dataset instruct: " in output
    assert "model pretrain: was trained on dataset code\n" in output
    assert "model base: its tokenizer was learned from the corpus\n" in output
    assert "evaluation perplexity: scores documents of it in code\n" in output
    for job in ("train sft", "pack code 128", "perplexity base", "verdict"):
        assert f"  {job}: " in output
    assert "filter" not in output.partition("must run again")[2] and "not measured" not in output
    assert (finished.root / "config/tiny.tsv").read_text() == table
    assert not (finished.root / "results/release").exists()


@pytest.mark.soak
def test_afterwards_every_shard_and_model_equals_that_of_a_run_that_never_had_the_source(finished, tmp_path):
    clone = finished.copy(tmp_path / "clone")
    table = clone.root / "config/tiny.tsv"
    table.write_text(table.read_text() + row("gamma", source("gamma", clone.root / "sources-gamma")))
    clone.snakemake("results/eval.json")
    model = "results/training/train/sft/model.safetensors"
    assert sha256_file(clone.root / model) != sha256_file(finished.root / model)
    forget(clone, "gamma", "--apply")
    assert (clone.root / "results/release/forget/gamma/certificate.md").is_file()
    assert table.read_text() == (finished.root / "config/tiny.tsv").read_text()
    for area in ("corpus", "tokens", "training"):
        folder = finished.root / "results" / area
        for path in folder.rglob("*.*"):
            if path.name == NAME or path.suffix in (".safetensors", ".bin", ".npy", ".zst"):
                assert sha256_file(path) == sha256_file(clone.root / path.relative_to(finished.root)), path
    assert clone.jobs() == set()
