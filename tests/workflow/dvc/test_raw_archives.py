"""Raw archives in the real workflow: other pins side by side, the same pin elsewhere, a new pin once published."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests import forked
from tests.workflow.conftest import EXPERIMENT, Clone, checkout, row, source
from tests.workflow.dvc.conftest import Checkout

HEADER = "name\tkind\tlocation\tpin\tlanguage\tpriority\tlicence\n"
ODD = "; touch ran; $(touch ran) `touch ran` 'one' \"two\" {wildcards} && --x *"
TARGET = "corpus/deduplicate/manifest.json"


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Clone:
    """A checkout without results, with the experiment `tiny` on two sources, one of them in a folder of an odd name."""
    root = tmp_path_factory.mktemp("raw") / "stagecraft"
    clone = checkout(root)
    (root / "config/tiny.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    table = HEADER + row("alpha", source("alpha", root.parent / ODD / "alpha"))
    (root / "config/tiny.tsv").write_text(table + row("gamma", source("gamma", root.parent / "gamma")))
    clone.snakemake(f"results/{TARGET}")
    return clone


def second_experiment(clone: Clone, rows: str) -> tuple[str, ...]:
    """Write an experiment on these sources with a results root of its own; the words that call its target."""
    config = {**EXPERIMENT, "results": "results/other", "sources": "config/other.tsv"}
    (clone.root / "config/other.yaml").write_text(yaml.safe_dump(config))
    (clone.root / "config/other.tsv").write_text(HEADER + rows)
    return f"results/other/{TARGET}", "--configfile", "config/other.yaml"


def changed_folder(clone: Clone, name: str) -> Path:
    """A copy of gamma's folder with one file more, of this name."""
    folder = clone.root.parent / name
    shutil.copytree(clone.root.parent / "gamma", folder)
    (folder / f"{name}.py").write_text("def new():\n    return 1\n" * 20)
    return folder


def test_no_part_of_a_location_is_run_as_a_command(clone):
    assert not list(clone.root.parent.rglob("ran"))
    assert len(list((clone.root / "data/raw").glob("alpha-*.tar.zst"))) == 1


@pytest.mark.soak
def test_an_experiment_with_another_pin_leaves_the_first_one_done(clone):
    changed = changed_folder(clone, "side_by_side")
    alpha = (clone.root / "config/tiny.tsv").read_text().splitlines(keepends=True)[1]
    second = second_experiment(clone, alpha + row("gamma", changed))
    assert clone.jobs(*second) >= {"filter alpha", "filter gamma", "deduplicate"}
    fetched = {job for job in clone.jobs(*second) if job.startswith("fetch")}
    assert fetched == {"fetch gamma"}  # alpha has the same pin in both
    clone.snakemake(*second)
    assert clone.jobs(f"results/{TARGET}") == set() == clone.jobs(*second)
    assert len(list((clone.root / "data/raw").glob("gamma-*.tar.zst"))) == 2


def test_the_same_pin_at_another_location_reruns_nothing(clone):
    table = clone.root / "config/tiny.tsv"
    before = table.read_text()
    moved = clone.root.parent / "moved"
    (clone.root.parent / "gamma").rename(moved)
    table.write_text(before.replace(str(clone.root.parent / "gamma"), str(moved)))
    try:
        assert clone.jobs(f"results/{TARGET}") == set()
    finally:
        moved.rename(clone.root.parent / "gamma")
        table.write_text(before)


@pytest.mark.soak
def test_a_new_pin_is_fetched_after_the_old_one_was_published(clone, tmp_path):
    publisher = Checkout(clone.copy(tmp_path / "publisher").root)
    workflow = (f"results/{TARGET}", "--profile", "local", "--configfile", "config/tiny.yaml")
    publisher.git("init", "--quiet")
    publisher.dvc("remote", "add", "--quiet", "--default", "shelf", str(tmp_path / "shelf"))
    publisher.dvc("remote", "modify", "shelf", "verify", "true")
    publisher.call(forked.python(), "-m", "scripts.cli", "publish", "--experiment", workflow[-1])
    assert len(list((publisher / "data/raw").glob("*.dvc"))) == 6  # archive, manifest and provenance of each
    assert publisher.planned(*workflow) == set()
    publisher.commit()

    table = publisher / "config/tiny.tsv"
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join([*lines[:2], row("gamma", changed_folder(clone, "published"))]))
    planned = publisher.planned(*workflow)
    assert {"fetch gamma", "filter gamma", "deduplicate"} <= planned
    assert not {"pull alpha", "filter alpha"} & planned

    colleague = publisher.clone(tmp_path / "colleague", pull=False)
    assert {"pull alpha", "pull gamma"} <= colleague.planned(*workflow)
    colleague.snakemake(*workflow)
    assert (colleague / f"results/{TARGET}").read_bytes() == (publisher / f"results/{TARGET}").read_bytes()
