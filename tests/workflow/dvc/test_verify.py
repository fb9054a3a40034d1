"""scripts/release/verify.py: each damage to a finished tree is named, also one that changed no time."""

import os
import shutil

import pytest

from scripts.common.files import write_cache
from scripts.experiment.reruns.causes import code_file, read_code
from scripts.experiment.reruns.provenance import FOLDERS
from scripts.release.verify import verify
from scripts.training.engine.checkpoint_folders import mark_complete
from tests.workflow.dvc.conftest import Checkout, flip

pytestmark = pytest.mark.fault("finished files", "workflow")


@pytest.fixture
def checkout(toy, tmp_path, monkeypatch) -> Checkout:
    copy = toy.copy(tmp_path / "checkout")
    checkpoint = copy / "results/work/train/first/0123/checkpoint-4"
    checkpoint.mkdir(parents=True)
    (checkpoint / "optimizer.pt").write_bytes(bytes(100))
    mark_complete(checkpoint, {})
    monkeypatch.chdir(copy.folder)
    return copy


def test_a_tree_that_nobody_touched_is_right_wherever_it_lies(checkout):
    found = verify(FOLDERS, print)
    assert (found.jobs, found.checkpoints, found.wrong) == (7, 1, [])
    shutil.rmtree(checkout / ".snakemake")
    assert verify(FOLDERS, print).wrong == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("results/eval.json", "results/eval.provenance.json: results/eval.json has another content"),
        (
            "results/training/first/config.json",
            "results/training/first/config.json has another content",
        ),
        (
            "data/raw/alpha-1.tar.zst",
            "alpha-1.tar.provenance.json: data/raw/alpha-1.tar.zst has another",
        ),
        ("results/corpus/filter/beta/manifest.provenance.json", "manifest.provenance.json: "),
        ("results/work/train/first/0123/checkpoint-4/optimizer.pt", "checkpoint-4: optimizer.pt is not what was saved"),
        ("template.txt", "results/eval.provenance.json: it was made from another template.txt"),
    ],
)
def test_a_flipped_bit_is_found_although_size_and_times_stay(checkout, name, line):
    path = checkout / name
    before = path.stat()
    flip(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert any(line in wrong for wrong in verify(FOLDERS, print).wrong)


def test_a_copy_of_a_stage_beside_it_counts_for_nothing_and_is_named(checkout):
    stage = checkout / "results/training/first"
    shutil.copytree(stage, stage.with_name("first.bak"))
    line = "results/training/first.bak: a copy of results/training/first, which no run uses; move it out of the results"
    assert verify(FOLDERS, print).wrong == [line]
    assert checkout.planned() == set()
    flip(stage.with_name("first.bak") / "config.json")  # would be found if the copy were taken for the stage
    assert checkout.planned() == set()


def test_a_damaged_record_of_code_is_named_and_written_again(checkout):
    path = code_file("0123", checkout / "results/code")
    write_cache(path, {"module": "scripts.corpus.filter", "units": {}})
    assert verify(FOLDERS, print).wrong == []
    flip(path)
    assert verify(FOLDERS, print).wrong == [
        f"{path.relative_to(checkout.folder)}: not what was written; the next run writes it again"
    ]
    assert read_code("0123", checkout / "results/code") is None


def test_missing_files_and_files_that_nothing_made_are_named(checkout):
    (checkout / "results/training/first/metrics.json").unlink()
    (checkout / "results/training/extra.json").write_text("{}")
    wrong = verify(FOLDERS, print).wrong
    assert any("results/training/first/metrics.json is missing" in line for line in wrong)
    assert "results/training/extra.json: no provenance lists it" in wrong


def test_a_dataset_named_code_holds_no_records_of_code(checkout):
    folder = checkout / "results/corpus/compose/code"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("{}")
    assert not any("not what was written" in line for line in verify(FOLDERS, print).wrong)


@pytest.mark.parametrize("folder", ["results/training/first", "results/corpus/filter/beta"])
def test_a_deleted_folder_is_made_again_and_until_then_named(checkout, folder):
    shutil.rmtree(checkout / folder)
    assert any(line.startswith(f"{folder}/") and "missing" in line for line in verify(FOLDERS, print).wrong)
    assert checkout.planned()
