"""scripts/release/publish.py: what is published and what is left out; each test has a copy of one checkout."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests import forked
from tests.workflow.dvc.conftest import PUBLISH, Checkout, flip


def test_publishing_leaves_nothing_to_do_in_the_same_checkout(published):
    assert (published / "data/raw/alpha-1.tar.zst.dvc").is_file()  # so that rule `pull` now stands for the archive
    assert published.planned() == set()


def test_publishing_twice_writes_the_same_bytes_and_no_absolute_paths(published, tmp_path):
    checkout = published.copy(tmp_path / "checkout")
    checkout.publish()
    assert checkout.git("status", "--porcelain") == ""
    committed = "".join(
        path.read_text() for path in checkout.folder.glob("data/**/*") if path.suffix in (".dvc", ".json")
    )
    assert "results/training/first/model.safetensors" in committed
    assert "/tmp" not in committed and str(Path.home()) not in committed


def test_only_finished_results_are_published(published):
    tracked = (published / "data/results.dvc").read_text()
    assert "results/training/first/config.json" in tracked  # undeclared, beside the model
    assert "logs" not in tracked


@pytest.mark.soak
def test_killed_publishing_can_be_repeated(toy, tmp_path):
    checkout = toy.copy(tmp_path / "checkout")
    command = [sys.executable, "-c", PUBLISH, "results", "alpha-1 beta-1"]
    for seen in ("data/raw/alpha-1.tar.zst.dvc", "data/results.dvc"):
        process = subprocess.Popen(command, cwd=checkout.folder, start_new_session=True, stderr=subprocess.DEVNULL)
        while not (checkout / seen).exists():
            assert process.poll() is None
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if (checkout / ".snakemake/locks").exists():
            checkout.snakemake("--unlock")
    checkout.publish()
    assert checkout.planned() == set()
    checkout.commit()
    assert checkout.clone(tmp_path / "colleague").planned() == set()


def test_unfinished_results_are_left_out(published, tmp_path):
    checkout = published.copy(tmp_path / "checkout")
    (checkout / "results/eval.json").write_text("a better verdict")
    (checkout / "results/training/second/metrics.json").unlink()
    out = checkout.publish()
    assert "left out: gate: results/eval.json has another content" in out
    assert "left out: train: results/training/second/metrics.json is missing" in out
    assert "results/training/second" not in (checkout / "data/results.dvc").read_text()
    checkout.commit()
    assert checkout.clone(tmp_path / "colleague").planned() == {"train second", "gate"}


def test_results_made_from_something_left_out_are_left_out(published, tmp_path):
    checkout = published.copy(tmp_path / "checkout")
    (checkout / "results/training/first/manifest.json").write_text("edited")
    out = checkout.publish()
    assert "left out: results/training/second/manifest.json" in out
    assert "left out: results/eval.json" in out
    assert "training" not in (checkout / "data/results.dvc").read_text()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (["remote", "remove", "shelf"], r"^error: no DVC remote: `dvc remote add -d NAME URL"),
        (
            ["remote", "modify", "shelf", "verify", "false"],
            r"^error: DVC remote shelf does not verify .*`dvc remote modify shelf verify true`",
        ),
    ],
)
def test_without_a_verifying_remote_nothing_is_published(toy, tmp_path, change, expected):
    checkout = toy.copy(tmp_path / "checkout")
    checkout.dvc(*change)
    assert re.search(expected, checkout.publish(fails=True), re.MULTILINE)
    assert not list(checkout.folder.glob("data/**/*.dvc"))


def test_during_a_run_nothing_is_published(toy, tmp_path):
    checkout = toy.copy(tmp_path / "checkout")
    (checkout / ".snakemake/locks").mkdir(exist_ok=True)
    (checkout / ".snakemake/locks/0.output.lock").write_text("results/eval.json\n")
    assert "error: a run is under way" in checkout.publish(fails=True)


def test_before_a_run_there_is_nothing_to_publish(published, tmp_path):
    checkout = published.clone(tmp_path / "checkout", pull=False)
    assert "error: results: nothing finished to publish" in checkout.publish(fails=True)


def test_an_experiment_without_sources_can_be_published(published, tmp_path):
    checkout = published.clone(tmp_path / "checkout", pull=False)
    command = [forked.python(), "-m", "scripts.cli", "publish", "--experiment", "config/smoke/lora-qa.yaml"]
    done = subprocess.run(command, cwd=checkout.folder, capture_output=True, text=True)
    assert done.stderr.startswith("error: results/smoke/lora-qa: nothing finished to publish")


def test_the_real_workflow_is_published_pulled_and_rerun_where_it_changed(finished, tmp_path):
    checkout = Checkout(finished.copy(tmp_path / "publisher").root)
    workflow = (
        "results/eval.json",
        "results/report.html",
        "results/scores.csv",
        "--profile",
        "local",
        "--configfile",
        "config/tiny.yaml",
    )
    checkout.git("init", "--quiet")
    checkout.dvc("remote", "add", "--quiet", "--default", "shelf", str(tmp_path / "shelf"))
    checkout.dvc("remote", "modify", "shelf", "verify", "true")
    publish = (forked.python(), "-m", "scripts.cli", "publish", "--experiment", "config/tiny.yaml")
    assert "left out" not in checkout.call(*publish)
    assert checkout.planned(*workflow) == set()
    checkout.commit()

    colleague = checkout.clone(tmp_path / "colleague")
    assert colleague.planned(*workflow) == set()
    settings = yaml.safe_load((colleague / "config/tiny.yaml").read_text())
    settings["training"]["train"]["sft"]["learning_rate"] *= 2
    (colleague / "config/mine.yaml").write_text(yaml.safe_dump(settings))
    report = {"page", "verdict"}
    mine = (*workflow[:-1], "config/mine.yaml")
    assert colleague.planned(*mine) == {"train sft", "perplexity sft", "keywords sft", "gate", *report}
    filtering = colleague / "scripts/corpus/filter.py"
    text = filtering.read_text()
    filtering.write_text(text.replace("name[dot:] if dot > 0", "name[dot:] if dot > 1"))
    why = colleague.call(forked.python(), "-m", "scripts.cli", "why", "--experiment", mine[-1])
    filtering.write_text(text)
    changed = "function scripts/corpus/filter.py:extension_of changed"  # by the record that was published
    assert f"filter alpha, filter beta: {changed}\n" in why
    assert "train sft: learning_rate 0.001 → 0.002" in why

    flip(colleague / "results/evaluation/perplexity/sft/items.jsonl.zst")
    assert colleague.planned(*workflow) == {"perplexity sft", "gate", *report}
    shutil.rmtree(colleague / "data/raw")
    colleague.git("checkout", "--quiet", "data/raw")
    names = sorted(path.name.removesuffix(".dvc") for path in (checkout / "data/raw").glob("*-????????????.json.dvc"))
    assert [name.partition("-")[0] for name in names] == ["alpha", "beta"]
    colleague.snakemake(*(f"data/raw/{name}" for name in names), *workflow[3:])
    manifests = [(side / "data/raw" / names[0]).read_bytes() for side in (checkout, colleague)]
    assert manifests[0] == manifests[1]  # rule `pull` makes the very manifest that was published
