"""Raw archives of several experiments in one checkout: other pins side by side, the same pin elsewhere, odd names."""

import shutil

import pytest
import yaml

from tests.workflow.conftest import EXPERIMENT, Clone, checkout, row, source

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
    config = {**EXPERIMENT, "results": "results/other", "sources": {"table": "config/other.tsv"}}
    (clone.root / "config/other.yaml").write_text(yaml.safe_dump(config))
    (clone.root / "config/other.tsv").write_text(HEADER + rows)
    return f"results/other/{TARGET}", "--configfile", "config/other.yaml"


def test_no_part_of_a_location_is_run(clone):
    assert not list(clone.root.parent.rglob("ran"))
    assert len(list((clone.root / "data/raw").glob("alpha-*.tar.zst"))) == 1


def test_an_experiment_with_another_pin_leaves_the_first_one_done(clone):
    changed = clone.root.parent / "changed"
    shutil.copytree(clone.root.parent / "gamma", changed)
    (changed / "new.py").write_text("def new():\n    return 1\n" * 20)
    alpha = (clone.root / "config/tiny.tsv").read_text().splitlines(keepends=True)[1]
    other = second_experiment(clone, alpha + row("gamma", changed))
    assert clone.jobs(*other) >= {"filter alpha", "filter gamma", "deduplicate"}
    fetched = {job for job in clone.jobs(*other) if job.startswith("fetch")}
    assert len(fetched) == 1 and "gamma-" in min(fetched)  # alpha has the same pin in both
    clone.snakemake(*other)
    assert clone.jobs(f"results/{TARGET}") == set() == clone.jobs(*other)
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
