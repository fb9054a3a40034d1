"""Publish, clone elsewhere, `dvc pull`: nothing is left to do, and damaged or outdated results are made again."""

import os
import re
import shutil
from pathlib import Path

import pytest

from tests.workflow.dvc.conftest import ALL_JOBS, flip

pytestmark = pytest.mark.fault("pulled files", "DVC")

TRAINING = {"train first", "train second", "gate"}


def test_after_clone_and_pull_nothing_is_left_to_do(colleague):
    assert colleague.planned() == set()
    assert colleague.git("status", "--porcelain") == ""


def test_a_clone_without_a_pull_runs_all_jobs_on_sources_from_the_remote(published, tmp_path):
    checkout = published.clone(tmp_path / "checkout", pull=False)
    assert checkout.run() == ALL_JOBS | {"pull alpha", "pull beta"}
    assert (checkout / "results/eval.json").read_bytes() == (published / "results/eval.json").read_bytes()
    assert checkout.planned() == set()


def test_the_files_of_one_stage_can_be_pulled_alone(published, tmp_path):
    """By the command of docs/data.md, with this stage's name."""
    checkout = published.clone(tmp_path / "checkout", pull=False)
    page = Path("docs/data.md").read_text(encoding="utf-8")
    command = re.search(r"`(dvc pull \$\(.*?\))`", page)[1].replace("training/train/sft", "training/first")
    checkout.call("sh", "-c", command)
    pulled = [path.relative_to(checkout.folder) for path in (checkout / "results").rglob("*") if path.is_file()]
    assert pulled and {path.parent for path in pulled} == {Path("results/training/first")}
    for path in pulled:
        assert (checkout / path).read_bytes() == (published / path).read_bytes()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("second_rate=0.2", {"train second", "gate"}),
        ("first_rate=0.2", {"train first", "train second", "gate"}),
        ("lines=20", ALL_JOBS),
        ("pin=2", {"fetch alpha", "fetch beta", *ALL_JOBS}),  # no pointer stands for another pin
    ],
)
def test_a_changed_setting_reruns_its_stage_and_what_depends_on_it(colleague, setting, expected):
    assert colleague.planned("--config", setting) == expected


@pytest.mark.parametrize(
    ("harm", "name", "expected"),
    [
        (flip, "data/raw/alpha-1.tar.zst", {"pull alpha", "filter alpha", *TRAINING}),
        (flip, "results/corpus/filter/beta/documents.jsonl.zst", {"filter beta", *TRAINING}),
        (flip, "results/corpus/filter/beta/rejects.jsonl.zst", {"filter beta", *TRAINING}),
        (flip, "results/training/first/config.json", TRAINING),  # no rule declares it
        (flip, "results/eval.json", {"gate"}),
        (Path.unlink, "data/raw/alpha-1.json", {"pull alpha", "filter alpha", *TRAINING}),
        (Path.unlink, "results/training/first/model.safetensors", TRAINING),
    ],
)
def test_a_damaged_file_reruns_its_job_and_what_depends_on_it(colleague, harm, name, expected):
    harm(colleague / name)
    assert colleague.planned() == expected


def test_a_missing_intermediate_folder_is_made_again_with_what_depends_on_it(colleague):
    shutil.rmtree(colleague / "results/training/first")
    assert colleague.planned() == TRAINING


def test_damaged_files_are_named_and_nothing_is_left_to_do_once_they_are_made_again(colleague, published):
    name = "results/training/second/model.safetensors"
    flip(colleague / name)
    assert f"train: not done: {name} has another content" in colleague.snakemake("--dry-run")
    assert (colleague / name).is_file()  # a dry run deletes nothing, and blesses nothing
    assert colleague.run() == {"train second", "gate"}
    assert (colleague / name).read_bytes() == (published / name).read_bytes()
    assert colleague.planned() == set()


def test_an_edited_input_that_is_in_git_reruns_the_jobs_that_read_it(colleague):
    (colleague / "template.txt").write_text("another\n")
    assert colleague.planned() == {"gate"}


def test_another_pin_in_the_same_checkout_leaves_published_results_done(colleague):
    second_experiment = ("--config", "pin=2", "results=results/other")
    assert colleague.run(*second_experiment) == {"fetch alpha", "fetch beta", *ALL_JOBS}
    assert colleague.planned() == set()
    colleague.publish("results/other", *second_experiment, pin="2")
    assert colleague.planned() == colleague.planned(*second_experiment) == set()


def test_a_file_damaged_after_it_was_restored_is_noticed(colleague):
    assert colleague.planned() == set()
    flip(colleague / "results/training/first/model.safetensors")
    assert colleague.planned() == {"train first", "train second", "gate"}


def test_a_damaged_file_is_trusted_once_it_is_pulled_again(colleague):
    flip(colleague / "results/eval.json")
    assert colleague.planned() == {"gate"}
    colleague.dvc("checkout", "--quiet", "--force")
    assert colleague.planned() == set()


@pytest.mark.parametrize("name", ["results/training/second/model.safetensors", "results/training/first/config.json"])
def test_a_file_that_is_corrupt_in_the_cache_too_is_repaired_by_the_command_in_the_message(colleague, published, name):
    md5 = re.search(rf"{name}\n  md5: (\w+)", (colleague / "data/results.dvc").read_text())[1]
    flip(colleague / f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}")
    (colleague / name).unlink()
    colleague.dvc("pull")
    assert (colleague / name).read_bytes() != (published / name).read_bytes()  # what DVC alone delivers
    out = colleague.snakemake("--dry-run")
    line = next(line for line in out.splitlines() if f"{name} has another content" in line)
    colleague.call("bash", "-c", re.search(r"`(.*)`", line)[1])
    assert (colleague / name).read_bytes() == (published / name).read_bytes()
    assert colleague.planned() == set()


def test_an_update_is_pulled_into_a_checkout_that_already_has_results(published, tmp_path):
    publisher, colleague = published.copy(tmp_path / "publisher"), published.clone(tmp_path / "colleague")
    colleague.git("remote", "set-url", "origin", str(publisher.folder))
    assert colleague.planned() == set()
    snakefile = publisher / "Snakefile"
    snakefile.write_text(snakefile.read_text().replace('"0.1"', '"0.3"'))
    assert publisher.run() == {"train first", "train second", "gate"}
    publisher.publish()
    publisher.commit()
    colleague.git("pull", "--quiet")
    assert colleague.planned() == {"train first", "train second", "gate"}
    colleague.dvc("pull", "--quiet")
    assert colleague.planned() == set()


def test_results_made_in_this_checkout_are_not_overwritten(colleague):
    setting = ("--config", "second_rate=0.2")
    assert colleague.run(*setting) == {"train second", "gate"}
    mine = (colleague / "results/eval.json").read_bytes()
    for path in (colleague / "results").rglob("*.json"):
        os.utime(path)  # as a copy of the folder would
    assert colleague.planned(*setting) == set()
    assert (colleague / "results/eval.json").read_bytes() == mine


def test_a_published_verdict_on_data_other_than_the_local_is_made_again(colleague):
    colleague.run("--config", "second_rate=0.2")
    colleague.dvc("checkout", "--quiet", "--force", "results/eval.json")
    assert colleague.planned("--config", "second_rate=0.2") == {"gate"}


def test_another_store_of_snakemakes_records_is_refused(colleague):
    out = colleague.snakemake("--dry-run", "--persistence-backend", "db", fails=True)
    assert "error: --persistence-backend" in out
