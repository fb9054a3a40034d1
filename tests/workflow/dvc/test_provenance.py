"""Damage to `.snakemake`, to a result or to its provenance: nothing stale is accepted, nothing else runs again."""

import base64
import json
import os
import shutil
from pathlib import Path

import pytest

from scripts.experiment.reruns.provenance import read_provenance
from tests.workflow.dvc.conftest import ALL_JOBS, Checkout, flip

pytestmark = pytest.mark.fault("Snakemake's records, results and provenance", "workflow")

TRAINING = {"train first", "train second", "gate"}


def remove_records(checkout: Checkout) -> None:
    shutil.rmtree(checkout / ".snakemake")


def truncate_records(checkout: Checkout) -> None:
    """What a power cut leaves: names of files without their content."""
    for path in (checkout / ".snakemake").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")


def flip_records(checkout: Checkout) -> None:
    for path in (checkout / ".snakemake").rglob("*"):
        if path.is_file() and path.stat().st_size:
            flip(path)


def keep_records_of_an_earlier_version(checkout: Checkout) -> None:
    """Records that Snakemake itself would trust."""
    shutil.rmtree(checkout / ".snakemake")
    folder = checkout / ".snakemake/metadata"
    folder.mkdir(parents=True)
    record = {"rule": "gate", "code": "another", "params": [], "input": [], "record_format_version": 6}
    (folder / base64.b64encode(b"results/eval.json").decode()).write_text(json.dumps(record))


def copy_from_elsewhere(checkout: Checkout) -> None:
    """Records of another run, with other settings."""
    other = checkout.copy(checkout.folder.parent / "other")
    other.run("--config", "first_rate=0.9")
    shutil.rmtree(checkout / ".snakemake")
    shutil.copytree(other / ".snakemake", checkout / ".snakemake")


def forget_hashes(checkout: Checkout) -> None:
    (checkout / ".snakemake/stagecraft/hashes.json").unlink()


def falsify_hashes(checkout: Checkout) -> None:
    (checkout / ".snakemake/stagecraft/hashes.json").write_text('{"x": 1}')


def break_hashes(checkout: Checkout) -> None:
    (checkout / ".snakemake/stagecraft/hashes.json").write_text('{"x": ')


def leave_marks_of_nothing(checkout: Checkout) -> None:
    (checkout / ".snakemake/incomplete").mkdir(exist_ok=True)
    (checkout / ".snakemake/incomplete/cmVzdWx0cy9ub3RoaW5n").write_text("{}")


def set_back_the_clock(checkout: Checkout) -> None:
    """Times as a copy may have them: an input newer than what was made from it, an output older than its input."""
    for number, path in enumerate(sorted((checkout / "results").rglob("*"))):
        if path.is_file():
            os.utime(path, (1e9 - 1000 * number, 1e9 - 1000 * number))


DAMAGES = [
    remove_records,
    truncate_records,
    flip_records,
    keep_records_of_an_earlier_version,
    copy_from_elsewhere,
    forget_hashes,
    falsify_hashes,
    break_hashes,
    leave_marks_of_nothing,
    set_back_the_clock,
]


@pytest.fixture
def checkout(toy, tmp_path) -> Checkout:
    return toy.copy(tmp_path / "checkout")


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_records_of_snakemake_rerun_nothing_and_hide_no_edited_setting(checkout, damage):
    damage(checkout)
    assert checkout.planned() == set()
    assert checkout.planned("--config", "second_rate=0.7") == {"train second", "gate"}
    assert checkout.planned("--config", "lines=20") == ALL_JOBS
    (checkout / "results/eval.json").unlink()
    assert checkout.planned("--config", "second_rate=0.7") == {"train second", "gate"}
    assert checkout.run() == {"gate"}


def test_a_copy_of_the_results_alone_is_complete(checkout, tmp_path):
    fresh = Checkout(tmp_path / "fresh")
    shutil.copytree(checkout.folder, fresh.folder, ignore=shutil.ignore_patterns("results", ".snakemake", "raw"))
    for name in ("results", "data/raw"):
        shutil.copytree(checkout / name, fresh / name, copy_function=shutil.copyfile)
    assert fresh.planned() == set()
    assert fresh.planned("--config", "first_rate=0.2") == TRAINING


@pytest.mark.parametrize(
    "harm",
    [
        Path.unlink,
        flip,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text('{"provenance": {}, "outputs": [], "sha256": "0"}'),
        lambda path: path.write_text(path.read_text().replace("'0.1'", "'0.7'")),  # as if it had been made with it
    ],
    ids=["removed", "a bit flipped", "emptied", "another content", "an edited setting"],
)
def test_a_result_without_its_provenance_is_not_done(checkout, harm):
    harm(checkout / "results/training/first/manifest.provenance.json")
    assert checkout.planned() == TRAINING
    assert checkout.planned("--config", "first_rate=0.7") == TRAINING
    assert checkout.run() == TRAINING
    assert checkout.planned() == set()


@pytest.mark.parametrize("name", ["model.safetensors", "metrics.json", "manifest.json", "config.json"])
def test_a_damaged_file_of_a_result_makes_its_job_run_again_and_is_named(checkout, name):
    flip(checkout / "results/training/first" / name)
    out = checkout.snakemake("--dry-run")
    assert f"train: not done: results/training/first/{name} has another content" in out
    assert checkout.run() == TRAINING
    assert checkout.planned() == set()


def test_an_input_that_was_made_anew_elsewhere_is_noticed_although_it_is_older(checkout, tmp_path):
    """A stage of another run, with its own valid provenance, is copied between: what was trained on it is stale."""
    other = checkout.copy(tmp_path / "other")
    other.run("--config", "first_rate=0.9")
    shutil.rmtree(checkout / "results/training/first")
    shutil.copytree(other / "results/training/first", checkout / "results/training/first")
    for path in (checkout / "results/training/first").iterdir():
        os.utime(path, (1e9, 1e9))
    assert checkout.planned("--config", "first_rate=0.9") == {"train second", "gate"}
    assert checkout.planned() == TRAINING


def test_a_job_that_is_killed_leaves_no_provenance(checkout):
    """Its earlier outputs must not count as those of the job that was to replace them."""
    toy = (checkout / "Snakefile").read_text()
    (checkout / "Snakefile").write_text(toy.replace("echo shape >", "kill -9 $PPID; echo shape >"))
    checkout.snakemake("--config", "first_rate=0.2", fails=True)
    (checkout / "Snakefile").write_text(toy)
    shutil.rmtree(checkout / ".snakemake")
    assert not (checkout / "results/training/first/manifest.provenance.json").exists()
    assert checkout.run() == TRAINING


def test_provenance_says_how_a_result_was_made(checkout):
    made = read_provenance(checkout / "results/training/second/manifest.provenance.json")
    assert made.rule == "train" and made.params == {"rate": "'0.1'"}
    assert set(made.beside) == {"results/training/second/config.json"}
    assert set(made.inputs) > {"results/training/first/manifest.json"}
    assert made.tools["snakemake"] and made.started <= made.ended
    assert set(made.outputs) == {
        f"results/training/second/{name}" for name in ("manifest.json", "model.safetensors", "metrics.json")
    }
    fetched = read_provenance(checkout / "data/raw/alpha-1.tar.provenance.json")
    assert fetched.rule == "fetch" and not fetched.beside


def test_a_snakemake_folder_that_cannot_be_used_is_one_line(checkout):
    shutil.rmtree(checkout / ".snakemake/incomplete")
    (checkout / ".snakemake/incomplete").write_text("no folder")
    out = checkout.snakemake("--dry-run", fails=True)
    assert ".snakemake/incomplete: File exists" in out and "Traceback" not in out
